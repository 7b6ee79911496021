#pragma once

#include <cstdint>
#include <vector>

#include "aoizora/simulate/workload.h"

namespace aoizora::simulate {

/// Collectives of a workload that differ in bytes only are one structure: N3 is linear in the bytes, so a
/// placement needs to expand them once.
struct Structures {
  /// A power of two, so that scaling an expanded structure rounds as expanding the collective would.
  static constexpr std::int64_t kUnitBytes = std::int64_t{1} << 40;

  explicit Structures(const Workload& workload);
  /// The collective's bytes over its structure's.
  double scale(const Workload& workload, std::size_t collective) const;

  std::vector<network::Collective> wholes;  // of kUnitBytes, or as they are when ragged
  std::vector<std::size_t> of;              // per collective
};

/// Each group, or each pair of a permute, as a collective of its own.
std::vector<network::Collective> split(const network::Collective& whole);
/// Partitions that take part, ascending.
std::vector<std::int32_t> members_of(const network::Collective& collective);

}  // namespace aoizora::simulate
