#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The chip kinds that exist: how they are wired, not how fast they are (that is the profile's, N8).
namespace aoizora::topology {

/// When a dimension has wraparound links (N1).
enum class WrapRule : std::uint8_t {
  kOnlySixteen,  // v5e, v6e: a dimension of 16
  kCubes         // v4, v5p, v7x: every dimension, once all are multiples of 4
};

struct ChipKind {
  std::string_view name;
  std::int32_t dims;  // dimensions of the torus
  WrapRule wrap;
  std::int32_t cores;                // devices per chip
  bool twists;                       // twisted tori exist
  std::int32_t largest;              // largest size of a dimension
  std::array<std::int32_t, 3> host;  // chips of one host (VM), as a box
};

/// All kinds, by name.
std::span<const ChipKind> chip_kinds();
/// By name or by another name in use (`tpu7x`, `v5litepod`); nullptr when there is none.
const ChipKind* find_chip_kind(std::string_view name);
/// `v4, v5e, v5p, v6e, v7x`.
std::string chip_kind_names();

}  // namespace aoizora::topology
