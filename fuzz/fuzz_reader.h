#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "aoizora/ir/inspect.h"
#include "aoizora/ir/printer.h"
#include "aoizora/ir/replica_groups.h"

/// What the fuzzers and the corpus test do with one input. A UserError is a fine answer; anything else that
/// is thrown, and every sanitizer report, is a finding.
namespace aoizora::fuzz {

inline void check_program(const ir::Program& program) {
  for (const ir::Collective& collective : program.collectives) {
    AOIZORA_CHECK(collective.operand_bytes >= 0 && collective.result_bytes >= 0, "negative bytes");
    AOIZORA_CHECK(collective.executions >= 0, "negative executions");
    AOIZORA_CHECK(collective.start.computation == collective.done.computation, "done in another computation");
    AOIZORA_CHECK(!(collective.done.instruction < collective.start.instruction), "done before start");
  }
  static_cast<void>(
      ir::inspect_json(program).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  static_cast<void>(ir::as_utf8(ir::inspect_text(program)));
}

/// Reads; what was read whole must survive printing.
inline void one_hlo(std::string_view input) {
  std::string printed;
  std::size_t collectives = 0;
  try {
    const ir::Program program = ir::read_hlo(std::string(input), "input");
    check_program(program);
    if (program.truncated) return;
    printed = ir::print_hlo(program);
    collectives = program.collectives.size();
  } catch (const UserError&) {
    return;
  }
  // No UserError here: we accepted it once.
  const ir::Program again = ir::read_hlo(printed, "printed");
  AOIZORA_CHECK(ir::print_hlo(again) == printed, "printing is not stable");
  AOIZORA_CHECK(again.collectives.size() == collectives, "printing changes the collectives");
}

inline void one_stablehlo(std::string_view input) {
  try {
    check_program(ir::read_stablehlo(std::string(input), "input"));
  } catch (const UserError&) {
  }
}

/// First two bytes: the device count.
inline void one_groups(std::string_view input) {
  if (input.size() < 2) return;
  const std::int64_t devices =
      static_cast<unsigned char>(input[0]) * 16 + static_cast<unsigned char>(input[1]) % 16;
  try {
    const ir::ReplicaGroups groups = ir::parse_replica_groups(input.substr(2), devices, "input", {1, 1});
    AOIZORA_CHECK(ir::groups_problem(groups.expanded(), devices).empty(), "accepted groups are no groups");
  } catch (const UserError&) {
  }
}

}  // namespace aoizora::fuzz
