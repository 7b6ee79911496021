#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "aoizora/topology/route.h"

namespace aoizora::network {

/// A group whose chips are all combinations of some values of each coordinate: a row, a column, a block,
/// every other row. What the compiler calls a regular group.
struct GroupGrid {
  /// Per coordinate (x, y, z, core, slice): the values, ascending; on a wrapped dimension starting after the
  /// largest gap, so that a block that lies across the wrap is still contiguous.
  std::vector<std::vector<std::int32_t>> values;
  /// Coordinates that take more than one value.
  std::vector<std::size_t> free;
  std::size_t extent(std::size_t i) const { return values[free[i]].size(); }
};

/// Nothing for an irregular group or on a custom graph.
std::optional<GroupGrid> group_grid(const topology::Slice& slice, std::span<const Chip> chips);

/// The cycle over the group's chips in which successive chips are nearest (fewest links in total): neighbours
/// all the way where such a cycle exists (2x2 and 2xN blocks, a wrapped row), the natural order on a line.
/// Exact for regular groups with a Hamiltonian cycle and for up to 9 chips (Held and Karp 1962); beyond,
/// nearest neighbour improved by 2-opt. Depends on the set of chips alone, and moves with it when the torus
/// is translated.
std::vector<Chip> ring_order(const topology::Router& router, std::span<const Chip> chips);

}  // namespace aoizora::network
