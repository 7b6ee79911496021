#pragma once

#include <deque>
#include <string>

#include "aoizora/ir/arena.h"
#include "aoizora/ir/program.h"
#include "aoizora/ir/scanner.h"
#include "aoizora/ir/shape_reader.h"

/// What the two readers share: the memory behind a Program and the steps after parsing.
namespace aoizora::ir {

struct Storage {
  explicit Storage(std::string t) : text(std::move(t)) {}
  std::string text;
  Arena arena;
  ShapeInterner shapes;
  std::deque<std::string> strings;  // names that no text holds
};

/// Checks that calls do not recurse and fills Computation::executions. `roots_count_once`: with no entry (a
/// truncated text) computations that nothing calls count as executed once.
void count_executions(Program& program);

/// Fills Program::collectives and Instruction::collective of an HLO program.
/// `counts_known`: the text says how many replicas and partitions there are; otherwise they are taken from
/// the ids that the groups name.
void find_collectives(Program& program, bool counts_known);

/// Value of `key` in a frontend_attributes or JSON-like `{a="x",b={..}}` text, without quotes; empty if none.
std::string_view braced_value(std::string_view braces, std::string_view key);

}  // namespace aoizora::ir
