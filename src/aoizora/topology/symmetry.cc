#include "aoizora/topology/symmetry.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "aoizora/base/error.h"

namespace aoizora::topology {
namespace {

using Grid = std::array<std::int32_t, kMaxDims>;

Grid sizes_of(const Slice& slice) {
  Grid sizes{1, 1, 1};
  std::copy(slice.dims().begin(), slice.dims().end(), sizes.begin());
  return sizes;
}

/// Coordinates of a chip with x, y, z replaced.
Chip with_grid(const Slice& slice, Chip chip, const Grid& grid) {
  Coordinates at = slice.coordinates(chip);
  std::copy(grid.begin(), grid.end(), at.begin());
  return slice.at(at);
}

bool maps_links_to_links(const Slice& slice, const std::vector<Chip>& map) {
  std::set<std::pair<Chip, Chip>> ends;
  for (const DirectedLink& link : slice.links()) {
    if (link.link_class == LinkClass::kIci) {
      ends.emplace(link.from, link.to);
    }
  }
  return std::all_of(ends.begin(), ends.end(), [&](const auto& link) {
    const auto core0 = [&](Chip chip) { return Chip(chip.value / slice.cores() * slice.cores()); };
    return ends.contains({core0(map[link.first.at()]), core0(map[link.second.at()])});
  });
}

struct Signed {
  std::array<std::size_t, kMaxDims> order{};  // new dimension d shows old dimension order[d]
  std::array<bool, kMaxDims> flip{};
};

std::string name_of(const Signed& signs) {
  constexpr std::string_view kNames = "xyz";
  std::string name;
  for (std::size_t d = 0; d < kMaxDims; ++d) {
    name += fmt::format("{}{}", signs.flip[d] ? "-" : "", kNames[signs.order[d]]);
  }
  return name == "xyz" ? "identity" : name;
}

std::vector<Chip> map_of(const Slice& slice, const Signed& signs) {
  const Grid sizes = sizes_of(slice);
  std::vector<Chip> map;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(slice.chips()); ++i) {
    const Grid old = slice.grid(Chip(i));
    Grid moved{};
    for (std::size_t d = 0; d < kMaxDims; ++d) {
      const std::int32_t at = old[signs.order[d]];
      moved[d] = signs.flip[d] ? sizes[d] - 1 - at : at;
    }
    map.push_back(with_grid(slice, Chip(i), moved));
  }
  return map;
}

bool keeps_routes(const Slice& slice, const Signed& signs, RouteRule rule) {
  // A permutation that only moves dimensions of size 1 was dropped by the caller.
  if (!std::is_sorted(signs.order.begin(), signs.order.end())) {
    return false;
  }
  for (std::size_t d = 0; d < slice.dims().size(); ++d) {
    const bool even_ring = slice.wraps(static_cast<std::int32_t>(d)) && slice.dims()[d] % 2 == 0;
    if (signs.flip[d] && even_ring && !rule.split_ties) {
      return false;
    }
  }
  return true;
}

Symmetry identity(const Slice& slice) { return {"identity", row_major(slice), true}; }

Symmetry swap_cores(const Slice& slice) {
  Symmetry swap{"cores", {}, true};
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(slice.chips()); ++i) {
    swap.map.push_back(Chip(i ^ 1));
  }
  return swap;
}

Symmetry product(const Symmetry& first, const Symmetry& second) {
  Symmetry both{first.name == "identity"    ? second.name
                : second.name == "identity" ? first.name
                                            : first.name + " " + second.name,
                {},
                first.keeps_routes && second.keeps_routes};
  for (const Chip chip : first.map) {
    both.map.push_back(second.map[chip.at()]);
  }
  return both;
}

}  // namespace

std::vector<Symmetry> point_symmetries(const Slice& slice, RouteRule rule) {
  if (slice.is_graph()) {
    return {identity(slice)};
  }
  const Grid sizes = sizes_of(slice);
  std::vector<Symmetry> found;
  Signed signs;
  std::iota(signs.order.begin(), signs.order.end(), std::size_t{0});
  do {
    bool shape = true;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
      // Among dimensions of size 1 only the identity order counts: others give the same map again.
      shape = shape && sizes[d] == sizes[signs.order[d]] && (sizes[d] > 1 || signs.order[d] == d);
    }
    for (std::uint32_t flips = 0; shape && flips < 8; ++flips) {
      bool useful = true;
      for (std::size_t d = 0; d < kMaxDims; ++d) {
        signs.flip[d] = (flips >> d & 1U) != 0;
        useful = useful && !(signs.flip[d] && sizes[d] == 1);
      }
      if (!useful) {
        continue;
      }
      Symmetry symmetry{name_of(signs), map_of(slice, signs), keeps_routes(slice, signs, rule)};
      // A twisted torus loses some: those that do not respect the twist.
      if (!slice.twisted() || maps_links_to_links(slice, symmetry.map)) {
        found.push_back(std::move(symmetry));
      }
    }
  } while (std::next_permutation(signs.order.begin(), signs.order.end()));
  if (slice.cores() == 2) {
    const Symmetry swap = swap_cores(slice);
    const std::size_t before = found.size();
    for (std::size_t i = 0; i < before; ++i) {
      found.push_back(product(found[i], swap));
    }
  }
  return found;
}

std::vector<Symmetry> translations(const Slice& slice) {
  if (slice.is_graph()) {
    return {identity(slice)};
  }
  constexpr std::string_view kNames = "xyz";
  std::vector<Symmetry> found{identity(slice)};
  for (std::size_t d = 0; d < slice.dims().size(); ++d) {
    if (!slice.wraps(static_cast<std::int32_t>(d))) {
      continue;
    }
    Symmetry one{"", {}, true};
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(slice.chips()); ++i) {
      const Link link = slice.neighbour_link(Chip(i), static_cast<std::int32_t>(d), true);
      one.map.push_back(Chip(slice.links()[link.at()].to.value + i % slice.cores()));
    }
    const std::size_t before = found.size();
    Symmetry power = one;
    for (std::int32_t k = 1; k < slice.dims()[d]; ++k) {
      power.name = fmt::format("+{}{}", kNames[d], k);
      for (std::size_t i = 0; i < before; ++i) {
        found.push_back(product(found[i], power));
      }
      power = product(power, one);
    }
  }
  return found;
}

std::vector<Symmetry> symmetries(const Slice& slice, RouteRule rule, bool any, std::size_t limit) {
  std::vector<Symmetry> found;
  const std::vector<Symmetry> moves = translations(slice);
  for (const Symmetry& point : point_symmetries(slice, rule)) {
    for (const Symmetry& move : moves) {
      if ((any || point.keeps_routes) && found.size() < limit) {
        found.push_back(product(point, move));
      }
    }
  }
  return found;
}

Placement apply(const Symmetry& symmetry, const Placement& placement) {
  Placement moved;
  moved.reserve(placement.size());
  for (const Chip chip : placement) {
    moved.push_back(symmetry.map[chip.at()]);
  }
  return moved;
}

}  // namespace aoizora::topology
