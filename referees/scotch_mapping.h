#pragma once

#include <vector>

#include "aoizora/place/problem.h"

namespace aoizora::referees {

/// Mappings of the program's communication graph (bytes of a step between each pair of partitions, as the
/// model's flows of row-major groups have them) by SCOTCH_graphMap onto Scotch's own mesh or torus of the
/// slice, with its default and its quality strategy, eight seeds each. Scotch minimises bytes times distance
/// and knows neither phases, links nor the schedule. UserError for slices that Scotch has no architecture of.
std::vector<topology::Placement> scotch_mappings(const place::Problem& problem, const topology::Slice& slice);

}  // namespace aoizora::referees
