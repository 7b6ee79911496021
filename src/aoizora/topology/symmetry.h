#pragma once

#include <string>
#include <vector>

#include "aoizora/topology/route.h"
#include "aoizora/topology/slice.h"

namespace aoizora::topology {

/// A bijection of the chips that maps links onto links.
struct Symmetry {
  std::string name;       // `identity`, `-x`, `yx`, `+x3`
  std::vector<Chip> map;  // map[chip] is where it goes
  /// True when it also maps every route onto a route (N2), so that no placement's time changes under it. A
  /// transposition does not: it turns XY routes into YX ones. Nor does the reflection of an even ring whose
  /// ties all go the positive way.
  bool keeps_routes = false;
};

/// Reflections and rotations: every signed permutation of the dimensions that maps the slice to itself;
/// the identity first. Where a chip has two devices, also their exchange; where there are several slices,
/// the same for all.
std::vector<Symmetry> point_symmetries(const Slice& slice, RouteRule rule = {});
/// Moves along wrapped dimensions; the identity first. All keep routes.
std::vector<Symmetry> translations(const Slice& slice);
/// Every product of the two that keeps routes (or all, when `any`): what may be factored out of a search. At
/// most `limit` of them: a large torus has thousands, and any subgroup's worth is already useful.
std::vector<Symmetry> symmetries(const Slice& slice, RouteRule rule = {}, bool any = false,
                                 std::size_t limit = 4096);

/// Placement p -> map[p] for every position.
Placement apply(const Symmetry& symmetry, const Placement& placement);

}  // namespace aoizora::topology
