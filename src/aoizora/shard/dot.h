#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "aoizora/ir/program.h"

namespace aoizora::shard {

/// A matrix product as the matrix unit sees it: `batch` products of [m, k] with [k, n].
struct DotDims {
  double batch = 1;
  double m = 1;
  double n = 1;
  double k = 1;

  double flops() const { return 2 * batch * m * n * k; }
  /// n and k filled up to the unit's side, m to the 8 sublanes of a register (docs/network.md names the
  /// source): small or odd local dimensions leave part of the unit idle.
  double padded_flops(int unit) const;
};

/// Reads `dot_dimension_numbers` (StableHLO spec, dot_general). nullopt when they are missing or out of
/// range.
std::optional<DotDims> dot_dims(const ir::Instruction& dot, const ir::Shape& lhs, const ir::Shape& rhs);

/// Side of the matrix unit: 256 on v6e and v7x, 128 before (cloud.google.com/tpu/docs, system architecture).
int matrix_unit(std::string_view kind);

}  // namespace aoizora::shard
