#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "aoizora/ir/program.h"

/// A Program written out again: to check the readers, and for other tools.
namespace aoizora::ir {

/// `f32[2,<=4]{1,0:T(8,128)S(1)}`.
std::string print_shape(const Shape& shape);

/// HLO text that this reader and XLA's own read back to the same program. A truncated program is printed as
/// far as it was read. Throws UserError for a StableHLO program.
std::string print_hlo(const Program& program);

/// Everything that was read, per computation and instruction: opcode, shape, bytes, operands, calls.
nlohmann::ordered_json program_json(const Program& program);

}  // namespace aoizora::ir
