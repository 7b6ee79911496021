#pragma once

#include <map>
#include <string_view>

#include "aoizora/ir/program.h"
#include "aoizora/ir/sdy_text.h"

namespace aoizora::ir {

/// Fills Program::collectives of a StableHLO + Shardy program. Bytes are per device: StableHLO's types are
/// local already; Shardy's collectives have global types, which their shardings divide.
/// `argument_attributes`: `arg_attrs` of each function, by computation.
void find_stablehlo_collectives(Program& program, const Meshes& meshes,
                                const std::map<std::int32_t, std::string_view>& argument_attributes,
                                bool counts_known);

}  // namespace aoizora::ir
