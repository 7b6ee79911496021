#pragma once

#include <string>

#include "aoizora/place/search.h"

namespace aoizora::place {

/// What the chips of each logical axis look like, for people: `context=x2@2*y2@2, tensor=x2*y2` (blocks of
/// 2x2 chips; `@2`: every other chip), `mixed` where groups are blocks of different shapes, `irregular` where
/// one is no block. Axes of size 1 are left out.
std::string axis_shapes(const topology::Slice& slice, const LogicalMesh& mesh,
                        const topology::Placement& placement);

}  // namespace aoizora::place
