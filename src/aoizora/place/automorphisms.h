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

/// The least signature over images of a placement under symmetries of the slice (only the first 16 are tried:
/// on large tori there are thousands, and a part of them already helps). Equal only for placements whose
/// times are equal. Leaves the evaluator at the placement.
std::uint64_t least_signature(Evaluator& evaluator, const topology::Placement& placement,
                              const std::vector<std::vector<Chip>>& symmetries);

/// The maps of the slice's symmetries that keep the model's routes.
std::vector<std::vector<Chip>> symmetry_maps(const network::Model& model);

}  // namespace aoizora::place
