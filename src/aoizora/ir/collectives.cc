#include <algorithm>
#include <map>
#include <optional>

#include "aoizora/ir/device_ids.h"
#include "aoizora/ir/opcodes.h"
#include "aoizora/ir/storage.h"

/// Finds the collectives of an HLO program and when each begins and ends. One operation may be written many
/// times (an async wrapper, the parts of a TPU `async_collective_fusion`); it must be counted once.
namespace aoizora::ir {
namespace {

std::int64_t element_bytes(const Shape& shape, std::size_t index) {
  return index < shape.tuple.size() ? shape.tuple[index].byte_size() : 0;
}

/// Bytes of the result. The `-start` forms carry their operands and context beside it (hlo_instruction.h):
/// all-gather-start and collective-permute-start (operand, result, ..), the async sugar ((operands), result,
/// s32[]); all-reduce-start is the result itself.
std::int64_t result_bytes(CollectiveKind kind, const Instruction& instruction) {
  const Shape& shape = *instruction.shape;
  if (kind == CollectiveKind::kSend) return 0;
  if (kind == CollectiveKind::kRecv) return shape.is_tuple() ? element_bytes(shape, 0) : shape.byte_size();
  if (!instruction.opcode.ends_with("-start") || !shape.is_tuple()) return shape.byte_size();
  const bool sugar = !shape.tuple.empty() && shape.tuple[0].is_tuple();
  if (kind == CollectiveKind::kAllReduce && !sugar) return shape.byte_size();
  return element_bytes(shape, 1);
}

std::int64_t operand_bytes(const Program& program, CollectiveKind kind, InstructionRef at) {
  if (kind == CollectiveKind::kRecv) return 0;
  const Instruction& instruction = program.instruction(at);
  // send carries a token, ragged-all-to-all its output buffer and offsets, beside the data.
  const bool first_only = kind == CollectiveKind::kSend || kind == CollectiveKind::kRaggedAllToAll;
  std::int64_t sum = 0;
  for (const Operand& operand : instruction.operands) {
    const Shape& shape = *program.instruction({at.computation, operand.instruction}).shape;
    const std::int64_t bytes = operand.tuple_index < 0
                                   ? shape.byte_size()
                                   : element_bytes(shape, static_cast<std::size_t>(operand.tuple_index));
    if (__builtin_add_overflow(sum, bytes, &sum)) {
      throw UserError(program.file, instruction.position, "the operands have more than 2^63 bytes");
    }
    if (first_only) break;
  }
  return sum;
}

/// Part of a TPU collective that is split over fusions (custom calls AsyncCollectiveStart and -Done).
enum class Part : std::uint8_t { kWhole, kStart, kMiddle, kDone };

struct Found {
  InstructionRef at;
  CollectiveKind kind;
  Part part = Part::kWhole;
};

class CollectiveFinder {
 public:
  CollectiveFinder(Program& program, bool counts_known)
      : program_(program),
        ids_(program, counts_known),
        inlined_(program.computations.size(), false),
        visited_(program.computations.size(), false) {}

  void run() {
    mark_inlined();
    for (std::size_t i = 0; i < program_.computations.size(); ++i) {
      if (!inlined_[i]) computation(ComputationId(static_cast<std::int32_t>(i)));
    }
    for (Collective& collective : program_.collectives) {
      collective.executions = program_.computation(collective.at.computation).executions;
    }
    ids_.finish();
  }

 private:
  static bool inlines(const Instruction& instruction) {
    return !instruction.called.empty() &&
           (instruction.opcode == "fusion" || role_of(instruction.opcode) == OpRole::kStart) &&
           !collective_kind(instruction.opcode);
  }

  void mark_inlined() {
    for (const Computation& computation : program_.computations) {
      for (const Instruction& instruction : computation.instructions) {
        if (!inlines(instruction)) continue;
        for (const ComputationId id : instruction.called) inlined_[id.at()] = true;
      }
    }
  }

  /// A computation that stands for itself: what it and its fusions hold, in schedule order.
  void computation(ComputationId id) {
    open_.clear();
    chains_.clear();
    const auto& instructions = program_.computation(id).instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const InstructionRef here{id, InstructionId(static_cast<std::int32_t>(i))};
      const Instruction& instruction = instructions[i];
      if (const auto kind = collective_kind(instruction.opcode)) {
        single({here, *kind, part_of(here)}, here);
      } else if (inlines(instruction)) {
        for (const Found& found : inside(instruction)) hosted(found, here);
      }
      const OpRole role = role_of(instruction.opcode);
      if (role == OpRole::kDone || role == OpRole::kUpdate) pass_start(here, role);
    }
    for (const auto& [start, collective] : open_) {
      const Collective& unfinished = program_.collectives[collective.at()];
      if (unfinished.done == unfinished.start && unfinished.async && !program_.truncated) {
        warn(unfinished.start, "starts but nothing here finishes it; it counts as synchronous");
        program_.collectives[collective.at()].async = false;
      }
    }
  }

  void warn(InstructionRef at, const char* what) {
    const Instruction& instruction = program_.instruction(at);
    program_.warnings.push_back(fmt::format("{}:{}:{}: {} {}", program_.file, instruction.position.line,
                                            instruction.position.column, instruction.name, what));
  }

  /// A collective written outside of any fusion: itself, or the part of a split one left in an orphan fusion.
  void single(const Found& found, InstructionRef here) {
    // The other parts of a split collective whose caller the text does not hold (truncated): the one with
    // the start stands for all.
    if (found.part == Part::kMiddle || found.part == Part::kDone) return;
    const CollectiveId id = add(found, here);
    if (role_of(program_.instruction(here).opcode) == OpRole::kStart) begin_async(id, here);
  }

  /// A collective inside the fusion or async wrapper `host`.
  void hosted(const Found& found, InstructionRef host) {
    if (role_of(program_.instruction(host).opcode) == OpRole::kStart) {
      begin_async(add(found, host), host);
      return;
    }
    if (found.part == Part::kMiddle || found.part == Part::kDone) {
      if (const auto chain = chain_before(found, host)) {
        instruction_at(found.at).collective = *chain;
        chains_[host.instruction.value].push_back(*chain);
        if (found.part == Part::kDone) finish(*chain, host);
        return;
      }
      warn(found.at, "continues a collective whose start is not in this computation; it counts as its own");
    }
    const CollectiveId id = add(found, host);
    if (found.part == Part::kStart) {
      program_.collectives[id.at()].async = true;
      chains_[host.instruction.value].push_back(id);
    }
  }

  Instruction& instruction_at(InstructionRef ref) {
    return program_.computations[ref.computation.at()].instructions[ref.instruction.at()];
  }

  CollectiveId add(const Found& found, InstructionRef host) {
    const CollectiveId id(static_cast<std::int32_t>(program_.collectives.size()));
    Collective collective;
    collective.kind = found.kind;
    collective.at = found.at;
    collective.start = collective.done = host;
    const Instruction& instruction = program_.instruction(found.at);
    collective.operand_bytes = operand_bytes(program_, found.kind, found.at);
    collective.result_bytes = result_bytes(found.kind, instruction);
    ids_.fill(collective, instruction);
    program_.collectives.push_back(std::move(collective));
    instruction_at(found.at).collective = id;
    instruction_at(host).collective = id;
    return id;
  }

  void begin_async(CollectiveId id, InstructionRef start) {
    // GPU marks a start that the runtime runs synchronously.
    const std::string_view config = program_.instruction(start).attribute("backend_config").value_or("");
    program_.collectives[id.at()].async = config.find("\"is_sync\":true") == std::string_view::npos;
    open_[start.instruction.value] = id;
  }

  void finish(CollectiveId id, InstructionRef done) {
    program_.collectives[id.at()].done = done;
    instruction_at(done).collective = id;
  }

  /// Links a `-done` or `-update` to the start its operand leads to.
  void pass_start(InstructionRef here, OpRole role) {
    const Instruction& instruction = program_.instruction(here);
    if (instruction.operands.empty()) return;
    const auto found = open_.find(producer(here.computation, instruction.operands[0].instruction).value);
    if (found == open_.end()) return;
    const CollectiveId id = found->second;
    if (role == OpRole::kDone) {
      finish(id, here);
    } else {
      open_[here.instruction.value] = id;
    }
  }

  /// The instruction whose result this is, seen through copies and tuple access.
  InstructionId producer(ComputationId computation, InstructionId id) const {
    const auto& instructions = program_.computation(computation).instructions;
    while (true) {
      const Instruction& instruction = instructions[id.at()];
      const std::string_view opcode = instruction.opcode;
      if (opcode != "get-tuple-element" && opcode != "bitcast" && opcode != "copy") return id;
      if (instruction.operands.empty()) return id;
      id = instruction.operands[0].instruction;  // always an earlier one, so this ends
    }
  }

  /// The split collective that the operands of fusion `host` carry and that `found` continues.
  std::optional<CollectiveId> chain_before(const Found& found, InstructionRef host) {
    const auto channel = program_.instruction(found.at).attribute("channel_id");
    for (const Operand& operand : program_.instruction(host).operands) {
      const auto at = chains_.find(producer(host.computation, operand.instruction).value);
      if (at == chains_.end()) continue;
      for (const CollectiveId id : at->second) {
        const Collective& collective = program_.collectives[id.at()];
        if (collective.kind == found.kind &&
            program_.instruction(collective.at).attribute("channel_id") == channel) {
          return id;
        }
      }
    }
    return std::nullopt;
  }

  /// Collectives in the computations a fusion or wrapper calls, through fusions in fusions.
  std::vector<Found> inside(const Instruction& caller) {
    std::vector<Found> found;
    std::vector<ComputationId> open(caller.called.begin(), caller.called.end());
    while (!open.empty()) {
      const ComputationId id = open.back();
      open.pop_back();
      if (visited_[id.at()]) continue;  // called from two places: counted once, executions add up
      visited_[id.at()] = true;
      const auto& instructions = program_.computation(id).instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        const InstructionRef at{id, InstructionId(static_cast<std::int32_t>(i))};
        if (const auto kind = collective_kind(instructions[i].opcode)) {
          found.push_back({at, *kind, part_of(at)});
        } else if (inlines(instructions[i])) {
          open.insert(open.end(), instructions[i].called.begin(), instructions[i].called.end());
        }
      }
    }
    return found;
  }

  /// Which part of a split collective an instruction is: told by the custom call that takes it.
  Part part_of(InstructionRef at) {
    const Instruction& collective = program_.instruction(at);
    const std::string_view config = collective.attribute("backend_config").value_or("");
    if (config.find("\"async_collective_fusion_config\"") == std::string_view::npos) return Part::kWhole;
    const auto& instructions = program_.computation(at.computation).instructions;
    for (std::size_t i = at.instruction.at() + 1; i < instructions.size(); ++i) {
      const Instruction& user = instructions[i];
      if (user.opcode != "custom-call") continue;
      const bool takes = std::any_of(user.operands.begin(), user.operands.end(), [&](const Operand& operand) {
        return operand.instruction == at.instruction;
      });
      if (!takes) continue;
      const std::string_view target = user.attribute("custom_call_target").value_or("");
      if (target == "\"AsyncCollectiveStart\"") return Part::kStart;
      if (target == "\"AsyncCollectiveDone\"") return Part::kDone;
    }
    return Part::kMiddle;
  }

  Program& program_;
  DeviceIds ids_;
  std::vector<bool> inlined_;
  std::vector<bool> visited_;
  // Of the computation being walked: starts not yet finished; split collectives each fusion carries.
  std::map<std::int32_t, CollectiveId> open_;
  std::map<std::int32_t, std::vector<CollectiveId>> chains_;
};

}  // namespace

void find_collectives(Program& program, bool counts_known) { CollectiveFinder(program, counts_known).run(); }

}  // namespace aoizora::ir
