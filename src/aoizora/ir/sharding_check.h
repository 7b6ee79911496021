#pragma once

#include "aoizora/ir/program.h"
#include "aoizora/ir/scanner.h"

namespace aoizora::ir {

/// An HLO `sharding` is kept as data, but one that contradicts itself or its shape is an error: the tile
/// dimensions of `{devices=[2,2]<=[4]}` and `{devices=[2,2]0,1,2,3}` must have the product that the device
/// list has, and one dimension per array dimension (plus those that `last_tile_dim..` declares).
/// Fails at the place in the value.
void check_sharding(Scanner& scanner, const Attribute& attribute, const Shape& shape);

}  // namespace aoizora::ir
