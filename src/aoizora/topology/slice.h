#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/units.h"

/// TPU slices: chips on a grid, directed links, wraparound (N1).
namespace aoizora::topology {

/// Chip coordinates as the compiler gives them: x, y, z, and the core where a chip has two devices.
using Coordinates = std::vector<std::int32_t>;

struct DirectedLink {
  Chip from;
  Chip to;
  /// Dimension 0..2 the link runs along, and +1 or -1; -1 dimension for links of a custom graph.
  std::int32_t dim = -1;
  std::int32_t direction = 0;
};

/// A slice: kind and shape. Immutable after parse; cheap to copy a reference to.
/// Chips are numbered with x fastest (x + X*(y + Y*z)), which is libtpu's default device order on v5e.
class Slice {
 public:
  /// `v5e:4x4`, `v5p:2x2x4`, two slices `v5e:2x4+2x4`. UserError names the kinds and shapes that exist.
  static Slice parse(std::string_view text);

  const std::string& name() const { return name_; }  // canonical string
  const std::string& kind() const { return kind_; }
  std::size_t chips() const { return coordinates_.size(); }
  std::span<const std::int32_t> dims() const { return dims_; }  // without trailing 1s below two dimensions
  bool wraps(std::int32_t dim) const { return wrap_[static_cast<std::size_t>(dim)]; }
  const Coordinates& coordinates(Chip chip) const { return coordinates_[chip.at()]; }
  /// UserError when no chip has these coordinates.
  Chip at(std::span<const std::int32_t> coordinates) const;
  std::span<const DirectedLink> links() const { return links_; }
  /// Links of the N2 route from one chip to another, in order; see route.h.
  std::span<const Link> outgoing(Chip chip) const;

 private:
  std::string name_;
  std::string kind_;
  std::vector<std::int32_t> dims_;
  std::vector<bool> wrap_;
  std::vector<Coordinates> coordinates_;
  std::vector<DirectedLink> links_;
  std::vector<std::vector<Link>> outgoing_;
};

/// A placement: placement[p] is the chip that holds logical mesh position p (row-major). A bijection.
using Placement = std::vector<Chip>;

/// Position p on chip p.
Placement row_major(const Slice& slice);
/// UserError when a chip is repeated, missing, or outside the slice.
Placement placement_from_coordinates(const Slice& slice, std::span<const Coordinates> coordinates);
void check_placement(const Slice& slice, const Placement& placement);

}  // namespace aoizora::topology
