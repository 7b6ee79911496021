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

/// What a link is made of: each class has its own bandwidth and latency in the profile (N8).
enum class LinkClass : std::uint8_t {
  kIci,   // between neighbouring chips
  kCore,  // between the two devices of one chip (v7x)
  kDcn,   // a host's uplink to, or downlink from, the data-centre network between slices
  kGraph  // of a custom graph
};

struct DirectedLink {
  /// Both valid, except on a kDcn link, whose far end is the network: an uplink has no `to`, a downlink no
  /// `from`. Where a chip has two devices an ICI link is listed at the device of core 0 and serves both.
  Chip from;
  Chip to;
  /// Dimension 0..2 the link runs along, and +1 or -1; -1 dimension for links of a custom graph.
  std::int32_t dim = -1;
  std::int32_t direction = 0;
  LinkClass link_class = LinkClass::kIci;
  /// Set by a custom graph; 0 and negative: what the profile says for the class.
  BytesPerMicro bandwidth{};
  Micros latency{-1.0};
};

/// Dimensions of the torus at most.
inline constexpr std::int32_t kMaxDims = 3;

/// A slice: kind and shape. Immutable after parse; cheap to copy a reference to.
/// Chips are numbered with the core fastest, then x (core + cores*(x + X*(y + Y*z))), then the slice, which
/// is libtpu's default device order on v5e. Coordinates are (x, y, z), then the core where a chip has two
/// devices, then the slice where there are several.
class Slice {
 public:
  /// `v5e:4x4`, `v5p:2x2x4`, `v4:4x4x8_twisted`, two slices `v5e:2x4+2x4`. UserError names the kinds and
  /// shapes that exist.
  static Slice parse(std::string_view text);

  const std::string& name() const { return name_; }  // canonical string
  const std::string& kind() const { return kind_; }
  std::size_t chips() const { return coordinates_.size(); }
  std::span<const std::int32_t> dims() const { return dims_; }  // 2 or 3 of them: no trailing 1 beyond two
  bool wraps(std::int32_t dim) const { return wrap_[static_cast<std::size_t>(dim)]; }
  const Coordinates& coordinates(Chip chip) const { return coordinates_[chip.at()]; }
  /// Trailing coordinates may be left out when they are 0. UserError when no chip has these coordinates.
  Chip at(std::span<const std::int32_t> coordinates) const;
  std::span<const DirectedLink> links() const { return links_; }
  /// Links that leave this chip, by dimension, positive direction first. Routes are in route.h.
  std::span<const Link> outgoing(Chip chip) const { return outgoing_[chip.at()]; }

  /// Devices of one chip: 1, or 2 on v7x.
  std::int32_t cores() const { return cores_; }
  /// Slices joined by the data-centre network, and which one a chip lies in.
  std::int32_t slices() const { return slices_; }
  std::int32_t slice_of(Chip chip) const { return chip.value / (chips_per_slice_ * cores_); }
  /// True for `_twisted` (v4, v5p).
  bool twisted() const { return twisted_; }
  /// True for a graph from a file: no dimensions, no coordinates but the node's number.
  bool is_graph() const { return dims_.empty(); }
  /// The ICI link that leaves a chip (given by any of its devices) along a dimension; invalid at an edge.
  Link neighbour_link(Chip chip, std::int32_t dim, bool positive) const {
    return neighbour_[static_cast<std::size_t>(chip.value / cores_) * 2 * kMaxDims +
                      static_cast<std::size_t>(2 * dim + (positive ? 0 : 1))];
  }
  /// What going once around a dimension adds to the coordinates: {.., size, ..}, and the twist of a twisted
  /// torus. Meaningful only where wraps(dim).
  const std::array<std::int32_t, kMaxDims>& wrap_vector(std::int32_t dim) const {
    return wrap_vectors_[static_cast<std::size_t>(dim)];
  }
  /// Host (VM) that drives a chip, numbered over all slices.
  std::int32_t host_of(Chip chip) const { return hosts_[chip.at()]; }
  std::int32_t hosts() const { return host_count_; }
  /// Links to and from the data-centre network of a host; invalid in a single slice.
  Link uplink(std::int32_t host) const;
  Link downlink(std::int32_t host) const;
  /// Chips the compiler may see as one: x, y, z of a chip within its slice, whatever its core and slice.
  std::array<std::int32_t, kMaxDims> grid(Chip chip) const;

 private:
  friend class SliceBuilder;

  std::string name_;
  std::string kind_;
  std::vector<std::int32_t> dims_;
  std::vector<bool> wrap_;
  std::vector<Coordinates> coordinates_;
  std::vector<DirectedLink> links_;
  std::vector<std::vector<Link>> outgoing_;
  std::int32_t cores_ = 1;
  std::int32_t slices_ = 1;
  std::int32_t chips_per_slice_ = 0;
  bool twisted_ = false;
  std::array<std::array<std::int32_t, kMaxDims>, kMaxDims> wrap_vectors_{};
  std::vector<Link> neighbour_;  // chip * 6 + 2 * dim + (0: positive, 1: negative)
  std::vector<std::int32_t> hosts_;
  std::int32_t host_count_ = 0;
  std::int32_t first_uplink_ = -1;  // uplink of host h: first + 2h, downlink: first + 2h + 1
};

/// A placement: placement[p] is the chip that holds logical mesh position p (row-major). A bijection.
using Placement = std::vector<Chip>;

/// Position p on chip p.
Placement row_major(const Slice& slice);
/// UserError when a chip is repeated, missing, or outside the slice.
Placement placement_from_coordinates(const Slice& slice, std::span<const Coordinates> coordinates);
void check_placement(const Slice& slice, const Placement& placement);

}  // namespace aoizora::topology
