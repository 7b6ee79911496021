#pragma once

#include <string>
#include <vector>

#include "aoizora/topology/kinds.h"
#include "aoizora/topology/slice.h"

namespace aoizora::topology {

/// Fills in a Slice; the only code that may.
class SliceBuilder {
 public:
  /// A torus or mesh of a chip kind. `sizes` are checked by Slice::parse.
  static Slice torus(std::string name, const ChipKind& kind, const std::vector<std::int32_t>& sizes,
                     bool twisted, std::int32_t slices);
  /// Nodes 0..nodes-1 and the links given, in this order.
  static Slice graph(std::string name, std::int32_t nodes, const std::vector<DirectedLink>& links);

  /// Gives the link from one chip to another the bandwidth and latency of `speed`; false when there is none.
  static bool change_link(Slice& slice, Chip from, Chip to, const DirectedLink& speed);

 private:
  explicit SliceBuilder(std::string name) { slice_.name_ = std::move(name); }

  void set_shape(const ChipKind& kind, const std::vector<std::int32_t>& sizes, bool twisted,
                 std::int32_t slices);
  void add_coordinates();
  void add_ici_links();
  void add_core_links();
  void add_hosts(const ChipKind& kind);
  void add_link(const DirectedLink& link);
  /// Where a step along a dimension leads; false at an edge without wrap.
  bool step(std::array<std::int32_t, kMaxDims>& grid, std::int32_t dim, std::int32_t direction) const;
  Chip chip_at(const std::array<std::int32_t, kMaxDims>& grid, std::int32_t slice) const;

  Slice slice_;
  std::array<std::int32_t, kMaxDims> size_{1, 1, 1};
};

}  // namespace aoizora::topology
