#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/ir/replica_groups.h"

/// Groups written by mesh axes: HLO's `mesh['a'=2,'b'=4] {'a','b':(1)2}` and Shardy's `{"a", "b":(1)2}`.
namespace aoizora::ir {

struct MeshAxis {
  std::string_view name;
  std::int64_t size = 1;
};

/// Axes are major to minor; device_ids gives the id at each row-major position (empty: the position itself).
struct DeviceMesh {
  std::vector<MeshAxis> axes;
  std::vector<std::int64_t> device_ids;

  /// Product of the sizes.
  std::int64_t positions() const;
};

/// A whole axis, or its sub-axis `:(pre)size`: the axis reshaped to (pre, size, rest), the middle part.
struct AxisRef {
  std::size_t axis = 0;
  std::int64_t pre = 1;
  std::int64_t size = 1;
};

/// Index of the axis of that name; -1 if none.
std::ptrdiff_t find_axis(const DeviceMesh& mesh, std::string_view name);

/// Why these references cannot be grouped by (a sub-axis that does not divide, two that overlap); empty when
/// they can.
std::string check_axis_refs(const DeviceMesh& mesh, const std::vector<AxisRef>& refs);

/// One group per position of the remaining (sub-)axes, in row-major order; inside a group the references
/// count row-major in the order given. References must have passed check_axis_refs; positions() is at most
/// kMaxGroupIds.
ReplicaGroups::List expand_mesh_groups(const DeviceMesh& mesh, const std::vector<AxisRef>& refs);

}  // namespace aoizora::ir
