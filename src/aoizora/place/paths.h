#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Orders of the points of a box (1 to 5 dimensions), from which families of placements are made.
namespace aoizora::place {

using Point = std::vector<std::int32_t>;
using Path = std::vector<Point>;

/// First dimension slowest.
Path row_major_path(const Point& sizes);
/// Boustrophedon: row-major with every other row walked backwards, so that successive points are neighbours.
Path snake_path(const Point& sizes);
/// A Hamiltonian cycle of the mesh, each step and the closing one to a neighbour; exists when the number of
/// points is even and two dimensions are above 1, or there are two points.
std::optional<Path> cycle_path(const Point& sizes);
/// A line there and back, `0 2 4 5 3 1`: a ring whose hops are at most 2 without a wraparound link.
Path folded_path(std::int32_t size);

struct NamedPath {
  std::string name;  // empty for row-major
  Path path;
};
/// The distinct ones of the above that fit these sizes, row-major first.
std::vector<NamedPath> paths_of(const Point& sizes);

}  // namespace aoizora::place
