#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace aoizora::topology {

/// A logical mesh: named axes with sizes, as `jax.sharding.Mesh` has them. Positions are numbered row-major
/// (the last axis fastest), which is the order of HLO's partition ids.
struct LogicalMesh {
  std::vector<std::string> axes;
  std::vector<std::int32_t> shape;
  friend bool operator==(const LogicalMesh&, const LogicalMesh&) = default;
};

}  // namespace aoizora::topology
