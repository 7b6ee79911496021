#include "aoizora/network/ring_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "aoizora/base/error.h"

namespace aoizora::network {
namespace {

using topology::Coordinates;
using topology::Router;
using topology::Slice;

/// Rotates the ascending values of a wrapped dimension so that they start after the largest gap.
void start_after_largest_gap(std::vector<std::int32_t>& values, std::int32_t size) {
  std::size_t start = 0;
  std::int32_t largest = values.front() + size - values.back();
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] - values[i - 1] > largest) {
      largest = values[i] - values[i - 1];
      start = i;
    }
  }
  std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(start), values.end());
}

/// Distinct values of each coordinate, in the order described at GroupGrid::values.
std::vector<std::vector<std::int32_t>> coordinate_values(const Slice& slice, std::span<const Chip> chips) {
  const std::size_t count = slice.coordinates(Chip(0)).size();
  std::vector<std::vector<std::int32_t>> values(count);
  for (std::size_t d = 0; d < count; ++d) {
    for (const Chip chip : chips) {
      values[d].push_back(slice.coordinates(chip)[d]);
    }
    std::sort(values[d].begin(), values[d].end());
    values[d].erase(std::unique(values[d].begin(), values[d].end()), values[d].end());
    if (d < slice.dims().size() && slice.wraps(static_cast<std::int32_t>(d))) {
      start_after_largest_gap(values[d], slice.dims()[d]);
    }
  }
  return values;
}

Chip chip_of(const Slice& slice, const GroupGrid& grid, std::span<const std::size_t> at) {
  Coordinates coordinates;
  for (const std::vector<std::int32_t>& values : grid.values) {
    coordinates.push_back(values.front());
  }
  for (std::size_t i = 0; i < grid.free.size(); ++i) {
    coordinates[grid.free[i]] = grid.values[grid.free[i]][at[i]];
  }
  return slice.at(coordinates);
}

/// Boustrophedon through all free dimensions but `without`: successive entries differ by one step in one.
std::vector<std::vector<std::size_t>> snake(const GroupGrid& grid, std::size_t without) {
  std::vector<std::vector<std::size_t>> path{std::vector<std::size_t>(grid.free.size(), 0)};
  for (std::size_t i = 0; i < grid.free.size(); ++i) {
    if (i == without) {
      continue;
    }
    std::vector<std::vector<std::size_t>> longer;
    for (std::size_t v = 0; v < grid.extent(i); ++v) {
      const std::size_t size = path.size();
      for (std::size_t p = 0; p < size; ++p) {
        longer.push_back(path[v % 2 == 0 ? p : size - 1 - p]);
        longer.back()[i] = v;
      }
    }
    path = std::move(longer);
  }
  return path;
}

// With rows along `rows` and m columns along the snake through the rest, m even:
//   > > > v     row 0 out, then column by column back through the other rows
//   ^ v < v
//   ^ v ^ v     (drawn for 4 rows, 4 columns)
//   ^ < ^ <
std::vector<Chip> comb_cycle(const Slice& slice, const GroupGrid& grid, std::size_t rows, bool swap) {
  std::vector<std::vector<std::size_t>> columns = snake(grid, rows);
  const std::size_t a = swap ? columns.size() : grid.extent(rows);
  const std::size_t m = swap ? grid.extent(rows) : columns.size();
  const auto chip = [&](std::size_t row, std::size_t column) {
    std::vector<std::size_t> at = columns[swap ? row : column];
    at[rows] = swap ? column : row;
    return chip_of(slice, grid, at);
  };
  std::vector<Chip> cycle;
  for (std::size_t j = 0; j < m; ++j) {
    cycle.push_back(chip(0, j));
  }
  for (std::size_t k = 0; k < m; ++k) {
    for (std::size_t i = 1; i < a; ++i) {
      cycle.push_back(chip(k % 2 == 0 ? i : a - i, m - 1 - k));
    }
  }
  return cycle;
}

/// Where a neighbour cycle, or the natural line, is known in closed form.
std::optional<std::vector<Chip>> regular_order(const Slice& slice, const GroupGrid& grid) {
  if (grid.free.size() == 1) {
    std::vector<Chip> line;
    for (std::size_t i = 0; i < grid.extent(0); ++i) {
      const std::size_t at[] = {i};
      line.push_back(chip_of(slice, grid, at));
    }
    return line;
  }
  std::size_t chips = 1;
  for (std::size_t i = 0; i < grid.free.size(); ++i) {
    chips *= grid.extent(i);
  }
  if (grid.free.empty() || chips % 2 != 0) {
    return std::nullopt;  // a grid is bipartite: an odd one has no neighbour cycle
  }
  const bool columns_even = (chips / grid.extent(0)) % 2 == 0;
  return comb_cycle(slice, grid, 0, !columns_even);
}

/// Members in an order that a translation of the torus does not change.
std::vector<Chip> canonical_members(const Slice& slice, std::span<const Chip> chips) {
  std::vector<Chip> members(chips.begin(), chips.end());
  std::sort(members.begin(), members.end());
  if (slice.is_graph()) {
    return members;
  }
  const std::vector<std::vector<std::int32_t>> values = coordinate_values(slice, chips);
  const auto rank = [&](Chip chip) {
    std::vector<std::size_t> ranks;
    const Coordinates& at = slice.coordinates(chip);
    for (std::size_t d = values.size(); d-- > 0;) {
      ranks.push_back(
          static_cast<std::size_t>(std::find(values[d].begin(), values[d].end(), at[d]) - values[d].begin()));
    }
    return ranks;
  };
  std::stable_sort(members.begin(), members.end(), [&](Chip a, Chip b) { return rank(a) < rank(b); });
  return members;
}

struct Distances {
  std::size_t n;
  std::vector<std::int32_t> table;
  std::int32_t operator()(std::size_t a, std::size_t b) const { return table[a * n + b]; }
};

Distances distances(const Router& router, const std::vector<Chip>& members) {
  Distances d{members.size(), {}};
  for (const Chip a : members) {
    for (const Chip b : members) {
      d.table.push_back(router.hops(a, b) + router.hops(b, a));
    }
  }
  return d;
}

constexpr std::size_t kExactUpTo = 9;

/// Held and Karp: shortest[set * m + last], sets of members 1..m (0 is the start).
std::vector<std::size_t> shortest_cycle(const Distances& d) {
  const std::size_t m = d.n - 1;
  const std::size_t sets = std::size_t{1} << m;
  std::vector<std::int32_t> shortest(sets * m, std::numeric_limits<std::int32_t>::max() / 2);
  std::vector<std::size_t> before(sets * m, 0);
  for (std::size_t last = 0; last < m; ++last) {
    shortest[(std::size_t{1} << last) * m + last] = d(0, last + 1);
  }
  for (std::size_t set = 1; set < sets; ++set) {
    for (std::size_t last = 0; last < m; ++last) {
      if ((set >> last & 1U) == 0) {
        continue;
      }
      for (std::size_t next = 0; next < m; ++next) {
        const std::size_t bigger = set | std::size_t{1} << next;
        const std::int32_t length = shortest[set * m + last] + d(last + 1, next + 1);
        if (bigger != set && length < shortest[bigger * m + next]) {
          shortest[bigger * m + next] = length;
          before[bigger * m + next] = last;
        }
      }
    }
  }
  std::size_t set = sets - 1;
  std::size_t last = 0;
  for (std::size_t i = 1; i < m; ++i) {
    if (shortest[set * m + i] + d(i + 1, 0) < shortest[set * m + last] + d(last + 1, 0)) {
      last = i;
    }
  }
  std::vector<std::size_t> cycle{0};
  for (std::size_t i = 0; i < m; ++i) {
    cycle.push_back(last + 1);
    const std::size_t previous = before[set * m + last];
    set ^= std::size_t{1} << last;
    last = previous;
  }
  return cycle;
}

std::vector<std::size_t> nearest_neighbour_cycle(const Distances& d) {
  std::vector<std::size_t> cycle{0};
  std::vector<bool> used(d.n, false);
  used[0] = true;
  while (cycle.size() < d.n) {
    std::size_t best = d.n;
    for (std::size_t i = 0; i < d.n; ++i) {
      if (!used[i] && (best == d.n || d(cycle.back(), i) < d(cycle.back(), best))) {
        best = i;
      }
    }
    used[best] = true;
    cycle.push_back(best);
  }
  return cycle;
}

/// Reverses stretches while that shortens the cycle (2-opt; distances are symmetric by construction).
void improve(const Distances& d, std::vector<std::size_t>& cycle) {
  for (bool better = true; better;) {
    better = false;
    for (std::size_t i = 0; i + 2 < d.n; ++i) {
      for (std::size_t j = i + 2; j < d.n; ++j) {
        const std::size_t next = cycle[(j + 1) % d.n];
        const std::int32_t now = d(cycle[i], cycle[i + 1]) + d(cycle[j], next);
        const std::int32_t then = d(cycle[i], cycle[j]) + d(cycle[i + 1], next);
        if (next != cycle[i] && then < now) {
          std::reverse(cycle.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       cycle.begin() + static_cast<std::ptrdiff_t>(j) + 1);
          better = true;
        }
      }
    }
  }
}

}  // namespace

std::optional<GroupGrid> group_grid(const Slice& slice, std::span<const Chip> chips) {
  if (slice.is_graph() || chips.empty()) {
    return std::nullopt;
  }
  GroupGrid grid{coordinate_values(slice, chips), {}};
  std::size_t product = 1;
  for (std::size_t d = 0; d < grid.values.size(); ++d) {
    product *= grid.values[d].size();
    if (grid.values[d].size() > 1) {
      grid.free.push_back(d);
    }
  }
  if (product != chips.size()) {
    return std::nullopt;  // chips are distinct, so as many as the product means all of them
  }
  return grid;
}

std::vector<Chip> ring_order(const Router& router, std::span<const Chip> chips) {
  if (chips.size() <= 1) {
    return {chips.begin(), chips.end()};
  }
  if (const std::optional<GroupGrid> grid = group_grid(router.slice(), chips)) {
    if (std::optional<std::vector<Chip>> order = regular_order(router.slice(), *grid)) {
      return *std::move(order);
    }
  }
  const std::vector<Chip> members = canonical_members(router.slice(), chips);
  if (members.size() <= 3) {
    return members;  // every cycle is the same one, up to its direction
  }
  const Distances d = distances(router, members);
  std::vector<std::size_t> cycle = d.n <= kExactUpTo ? shortest_cycle(d) : nearest_neighbour_cycle(d);
  if (d.n > kExactUpTo) {
    improve(d, cycle);
  }
  std::vector<Chip> order;
  for (const std::size_t member : cycle) {
    order.push_back(members[member]);
  }
  return order;
}

}  // namespace aoizora::network
