#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "aoizora/ir/program.h"

/// What the reader has to know of an HLO opcode. An opcode without a row is data like any other.
namespace aoizora::ir {

enum class OpRole : std::uint8_t { kPlain, kStart, kUpdate, kDone };

struct OpcodeInfo {
  std::string_view name;
  /// Operand counts; -1: any.
  std::int8_t min_operands = 0;
  std::int8_t max_operands = -1;
  /// The text between the parentheses is no operand list (`parameter(0)`, `constant(1)`).
  bool raw_argument = false;
};

/// The row of an opcode; null when unknown to us.
const OpcodeInfo* find_opcode(std::string_view opcode);

/// `all-gather-start` → kStart and so on; `send`, `recv` are starts too (`send-done` finishes them).
OpRole role_of(std::string_view opcode);
/// The collective an opcode names: `all-gather`, `all-gather-start` → kAllGather; not `-done`, `-update`.
std::optional<CollectiveKind> collective_kind(std::string_view opcode);

}  // namespace aoizora::ir
