#include "aoizora/place/paths.h"

#include <algorithm>

namespace aoizora::place {
namespace {

std::int64_t count(const Point& sizes) {
  std::int64_t points = 1;
  for (const std::int32_t size : sizes) points *= size;
  return points;
}

/// The cycle of a rows x columns mesh with an even number of rows: down the first column last.
///   0 1 2      down column 0 at the end; columns 1.. as a snake
///   5 4 3
std::vector<std::pair<std::int32_t, std::int32_t>> comb(std::int32_t rows, std::int32_t columns) {
  std::vector<std::pair<std::int32_t, std::int32_t>> cycle;
  for (std::int32_t r = 0; r < rows; ++r) {
    for (std::int32_t c = 1; c < columns; ++c) cycle.emplace_back(r, r % 2 == 0 ? c : columns - c);
  }
  for (std::int32_t r = rows; r-- > 0;) cycle.emplace_back(r, 0);
  return cycle;
}

}  // namespace

Path row_major_path(const Point& sizes) {
  Path path;
  for (std::int64_t i = 0; i < count(sizes); ++i) {
    Point point(sizes.size());
    std::int64_t rest = i;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      point[d] = static_cast<std::int32_t>(rest % sizes[d]);
      rest /= sizes[d];
    }
    path.push_back(std::move(point));
  }
  return path;
}

Path snake_path(const Point& sizes) {
  Path path = row_major_path(sizes);
  for (Point& point : path) {
    // A dimension runs backwards when the index of all slower ones together is odd.
    std::int64_t slower = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::int32_t at = point[d];
      if (slower % 2 == 1) point[d] = sizes[d] - 1 - at;
      slower = slower * sizes[d] + at;
    }
  }
  return path;
}

std::optional<Path> cycle_path(const Point& sizes) {
  std::vector<std::size_t> free;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) free.push_back(d);
  }
  const std::int64_t points = count(sizes);
  if (points == 2) return row_major_path(sizes);
  if (free.size() < 2 || points % 2 != 0) return std::nullopt;
  // One even dimension against a snake through all others: a two-dimensional mesh of neighbours. With an
  // even number of rows the comb closes; so rows are the even dimension, or the snake when only that is even.
  const auto even = std::find_if(free.begin(), free.end(), [&](std::size_t d) { return sizes[d] % 2 == 0; });
  const std::size_t rows = *even;
  Point others = sizes;
  others[rows] = 1;
  const Path snake = snake_path(others);
  Path cycle;
  for (const auto& [r, c] : comb(sizes[rows], static_cast<std::int32_t>(snake.size()))) {
    cycle.push_back(snake[static_cast<std::size_t>(c)]);
    cycle.back()[rows] = r;
  }
  return cycle;
}

Path folded_path(std::int32_t size) {
  Path path;
  for (std::int32_t i = 0; i < size; i += 2) path.push_back({i});
  for (std::int32_t i = size - 1; i > 0; --i) {
    if (i % 2 == 1) path.push_back({i});
  }
  return path;
}

std::vector<NamedPath> paths_of(const Point& sizes) {
  std::vector<NamedPath> paths = {{"", row_major_path(sizes)}};
  const auto add = [&](std::string name, Path path) {
    for (const NamedPath& known : paths) {
      if (known.path == path) return;
    }
    paths.push_back({std::move(name), std::move(path)});
  };
  std::size_t free = 0;
  std::size_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) ++free, last = d;
  }
  if (free > 1) {
    if (auto cycle = cycle_path(sizes)) add("cycle", *std::move(cycle));
    add("snake", snake_path(sizes));
    Point reversed(sizes.rbegin(), sizes.rend());
    Path other = row_major_path(reversed);
    for (Point& point : other) std::reverse(point.begin(), point.end());
    add("transposed", std::move(other));
  } else if (free == 1 && sizes[last] > 3) {
    Path folded;
    for (const Point& at : folded_path(sizes[last])) {
      folded.emplace_back(sizes.size(), 0);
      folded.back()[last] = at[0];
    }
    add("folded", std::move(folded));
  }
  return paths;
}

}  // namespace aoizora::place
