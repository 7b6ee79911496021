#include "aoizora/topology/slice.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "aoizora/base/error.h"
#include "aoizora/topology/builder.h"
#include "aoizora/topology/kinds.h"

namespace aoizora::topology {
namespace {

constexpr std::string_view kTwistedSuffix = "_twisted";

std::string shape_help(const ChipKind& kind) {
  if (kind.dims == 2) {
    return fmt::format("each of two sizes is one of 1, 2, 4, 8, 16, as in `{}:4x4`", kind.name);
  }
  return fmt::format("each of three sizes is 1, 2 or a multiple of 4 up to {}, as in `{}:2x2x4`",
                     kind.largest, kind.name);
}

/// `4x4x8` -> {4, 4, 8}; UserError when the text is not that.
std::vector<std::int32_t> parse_sizes(std::string_view shape, const ChipKind& kind, std::string_view whole) {
  std::vector<std::int32_t> sizes;
  while (true) {
    const std::size_t end = std::min(shape.find('x'), shape.size());
    std::int32_t size = 0;
    const auto [stop, error] = std::from_chars(shape.data(), shape.data() + end, size);
    if (error != std::errc() || stop != shape.data() + end || size < 1) {
      user_error("slice `{}`: `{}` is not a size; {}", whole, shape.substr(0, end), shape_help(kind));
    }
    sizes.push_back(size);
    if (end == shape.size()) {
      return sizes;
    }
    shape.remove_prefix(end + 1);
  }
}

bool size_exists(std::int32_t size, const ChipKind& kind) {
  if (size > kind.largest) {
    return false;
  }
  if (kind.dims == 2) {
    return (size & (size - 1)) == 0;
  }
  return size <= 2 || size % 4 == 0;
}

/// Checks the shape and pads it to the kind's dimensions.
std::vector<std::int32_t> check_sizes(std::vector<std::int32_t> sizes, const ChipKind& kind,
                                      std::string_view whole) {
  if (std::ssize(sizes) > kind.dims) {
    user_error("slice `{}`: {} has {} dimensions, not {}; {}", whole, kind.name, kind.dims, sizes.size(),
               shape_help(kind));
  }
  sizes.resize(static_cast<std::size_t>(kind.dims), 1);
  for (const std::int32_t size : sizes) {
    if (!size_exists(size, kind)) {
      user_error("slice `{}`: no {} slice has a dimension of {}; {}", whole, kind.name, size,
                 shape_help(kind));
    }
  }
  return sizes;
}

/// A slice is within one host or takes hosts whole (tunix PR 1465: 4x1x1 of hosts of 2x2x1). Checked for the
/// three-dimensional kinds, whose hosts are always 2x2x1; proposes the most compact shape of as many chips.
void check_hosts(const std::vector<std::int32_t>& sizes, const ChipKind& kind, std::string_view whole) {
  if (kind.dims != 3) return;
  bool within = true, fits = true;
  std::int32_t chips = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    within &= sizes[d] <= kind.host[d];
    fits &= sizes[d] % kind.host[d] == 0;
    chips *= sizes[d];
  }
  if (within || fits) return;
  std::string proposal;
  std::int32_t least = 0;
  for (std::int32_t x = kind.host[0]; x <= kind.largest; x *= 2) {
    for (std::int32_t y = x; y <= kind.largest; y *= 2) {
      const std::int32_t z = chips / (x * y);
      if (z < 1 || z > kind.largest || x * y * z != chips) continue;
      if (least > 0 && x + y + z >= least) continue;
      least = x + y + z;
      proposal = fmt::format("; {} chips that fit are `{}:{}x{}x{}`", chips, kind.name, x, y, z);
    }
  }
  user_error("slice `{}`: it does not fit its hosts, which drive {} chips each and are taken whole{}", whole,
             fmt::join(kind.host, "x"), proposal);
}

/// Twisted tori exist for k x k x 2k and k x 2k x 2k, k a multiple of 4 (docs.cloud.google.com/tpu/docs/v4).
void check_twisted(const std::vector<std::int32_t>& sizes, const ChipKind& kind, std::string_view whole) {
  std::vector<std::int32_t> sorted = sizes;
  std::sort(sorted.begin(), sorted.end());
  const bool shape = sorted.size() == 3 && sorted[0] % 4 == 0 && sorted[2] == 2 * sorted[0] &&
                     (sorted[1] == sorted[0] || sorted[1] == sorted[2]);
  if (!kind.twists || !shape) {
    user_error("slice `{}`: twisted tori exist on v4 and v5p, for shapes like 4x4x8 and 4x8x8", whole);
  }
}

std::string canonical_name(const ChipKind& kind, const std::vector<std::int32_t>& sizes, bool twisted,
                           std::int32_t count) {
  const std::string shape = fmt::format("{}{}", fmt::join(sizes, "x"), twisted ? kTwistedSuffix : "");
  std::string name = fmt::format("{}:{}", kind.name, shape);
  for (std::int32_t i = 1; i < count; ++i) {
    name += "+" + shape;
  }
  return name;
}

}  // namespace

Slice Slice::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind_text = text.substr(0, std::min(colon, text.size()));
  const ChipKind* kind = find_chip_kind(kind_text);
  if (kind == nullptr) {
    user_error("slice `{}`: no chip kind `{}`; a slice is KIND:SHAPE, as in `v5e:4x4`, and the kinds are {}",
               text, kind_text, chip_kind_names());
  }
  if (colon == std::string_view::npos) {
    user_error("slice `{}`: no shape; {}", text, shape_help(*kind));
  }
  std::string_view rest = text.substr(colon + 1);
  std::string_view first = rest.substr(0, rest.find('+'));
  std::int32_t count = 1;
  for (std::string_view more = rest.substr(first.size()); !more.empty(); ++count) {
    more.remove_prefix(1);
    const std::string_view next = more.substr(0, more.find('+'));
    if (next != first) {
      user_error("slice `{}`: slices joined by the data-centre network have one shape; `{}` is not `{}`",
                 text, next, first);
    }
    more.remove_prefix(next.size());
  }
  const bool twisted = first.ends_with(kTwistedSuffix);
  if (twisted) {
    first.remove_suffix(kTwistedSuffix.size());
  }
  std::vector<std::int32_t> sizes = check_sizes(parse_sizes(first, *kind, text), *kind, text);
  check_hosts(sizes, *kind, text);
  if (twisted) {
    check_twisted(sizes, *kind, text);
  }
  return SliceBuilder::torus(canonical_name(*kind, sizes, twisted, count), *kind, sizes, twisted, count);
}

std::array<std::int32_t, kMaxDims> Slice::grid(Chip chip) const {
  std::array<std::int32_t, kMaxDims> grid{};
  const Coordinates& all = coordinates_[chip.at()];
  std::copy_n(all.begin(), std::min<std::size_t>(all.size(), kMaxDims), grid.begin());
  return grid;
}

Chip Slice::at(std::span<const std::int32_t> coordinates) const {
  const auto unknown = [&]() {
    user_error("{}: no chip at ({}); coordinates run from ({}) to ({})", name_, fmt::join(coordinates, ", "),
               fmt::join(coordinates_.front(), ", "), fmt::join(coordinates_.back(), ", "));
  };
  const Coordinates& last = coordinates_.back();
  if (coordinates.empty() || coordinates.size() > last.size()) {
    unknown();
  }
  if (is_graph()) {
    if (coordinates[0] < 0 || coordinates[0] > last[0]) {
      unknown();
    }
    return Chip(coordinates[0]);
  }
  // Order of significance, least first: core, x, y, z, slice.
  const auto value = [&](std::size_t i) { return i < coordinates.size() ? coordinates[i] : 0; };
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (value(i) < 0 || value(i) > last[i]) {
      unknown();
    }
  }
  std::int32_t index = slices_ > 1 ? value(last.size() - 1) : 0;
  for (std::size_t d = kMaxDims; d-- > 0;) {
    index = index * (last[d] + 1) + value(d);
  }
  return Chip(cores_ > 1 ? index * cores_ + value(kMaxDims) : index);
}

Link Slice::uplink(std::int32_t host) const {
  return first_uplink_ < 0 ? Link() : Link(first_uplink_ + 2 * host);
}

Link Slice::downlink(std::int32_t host) const {
  return first_uplink_ < 0 ? Link() : Link(first_uplink_ + 2 * host + 1);
}

Placement row_major(const Slice& slice) {
  Placement placement;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(slice.chips()); ++i) {
    placement.push_back(Chip(i));
  }
  return placement;
}

Placement placement_from_coordinates(const Slice& slice, std::span<const Coordinates> coordinates) {
  Placement placement;
  for (const Coordinates& one : coordinates) {
    placement.push_back(slice.at(one));
  }
  check_placement(slice, placement);
  return placement;
}

void check_placement(const Slice& slice, const Placement& placement) {
  std::vector<std::int32_t> position(slice.chips(), -1);
  for (std::size_t p = 0; p < placement.size(); ++p) {
    const Chip chip = placement[p];
    if (!chip.valid() || chip.at() >= slice.chips()) {
      user_error("{}: position {} of the order names chip {}; chips are 0 to {}", slice.name(), p, chip.value,
                 slice.chips() - 1);
    }
    if (position[chip.at()] >= 0) {
      user_error("{}: the order repeats chip ({}), at positions {} and {}", slice.name(),
                 fmt::join(slice.coordinates(chip), ", "), position[chip.at()], p);
    }
    position[chip.at()] = static_cast<std::int32_t>(p);
  }
  const auto missing = std::find(position.begin(), position.end(), -1);
  if (missing != position.end()) {
    const Chip chip(static_cast<std::int32_t>(missing - position.begin()));
    user_error("{}: the order has {} of {} chips; ({}) is missing", slice.name(), placement.size(),
               slice.chips(), fmt::join(slice.coordinates(chip), ", "));
  }
}

}  // namespace aoizora::topology
