#pragma once

#include "aoizora/topology/slice.h"

namespace aoizora::topology {

/// Checks what every slice must be, whatever made it: links join chips that exist, each neighbour link has
/// one back, no chip links to itself, coordinates and numbers agree both ways, degrees fit the dimensions,
/// wrap vectors come back to the start. InternalError names the first thing that does not hold. O(chips +
/// links).
void check_slice(const Slice& slice);

}  // namespace aoizora::topology
