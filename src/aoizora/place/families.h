#pragma once

#include <string>
#include <vector>

#include "aoizora/place/search.h"

namespace aoizora::place {

struct Candidate {
  std::string name;
  topology::Placement placement;
};

/// Structured placements of a mesh on a slice, distinct, in a fixed order, at most `limit` of them:
///   - curves through the whole slice (row-major in every order of the physical axes, snakes, a Hamiltonian
///     cycle, tiles of every shape with a ring inside) cut into logical axes in every order;
///   - splits: every way to factor the physical axes over the logical ones, with every nesting inside a
///     physical axis (blocks and strides), and each logical axis walked in row-major order, as a snake, as a
///     cycle or as a folded line.
/// All dimensions alike: 1-D to 3-D, the two devices of a chip and several slices are further axes.
std::vector<Candidate> families(const topology::Slice& slice, const LogicalMesh& mesh, std::size_t limit);

}  // namespace aoizora::place
