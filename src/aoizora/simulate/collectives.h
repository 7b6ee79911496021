#pragma once

#include <optional>

#include "aoizora/ir/program.h"
#include "aoizora/network/collective.h"

namespace aoizora::simulate {

/// A program's collective in the network model's terms (N3), with the compiler's algorithm where the text
/// tells. nullopt for what no group of chips does together: a send or recv with the host.
std::optional<network::Collective> to_network(const ir::Program& program, const ir::Collective& collective);

}  // namespace aoizora::simulate
