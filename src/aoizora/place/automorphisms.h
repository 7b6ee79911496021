#pragma once

#include <cstdint>
#include <vector>

#include "aoizora/place/evaluator.h"
#include "aoizora/place/search.h"

namespace aoizora::place {

/// Logical axes along which any two slabs may be exchanged without changing what any collective does:
/// positions (.., i, ..) and (.., k, ..) trade places and every structure keeps its groups. True for each
/// axis, in order. Placements that differ by such exchanges have equal times and are visited once.
std::vector<bool> exchangeable_axes(const Problem& problem, const LogicalMesh& mesh);

/// Positions with index i+1 where i was along one axis, and the other way round.
std::vector<std::size_t> exchange(const LogicalMesh& mesh, std::size_t axis, std::int32_t i);

}  // namespace aoizora::place
