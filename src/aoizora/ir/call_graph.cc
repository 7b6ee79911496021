#include <algorithm>

#include "aoizora/ir/storage.h"

namespace aoizora::ir {
namespace {

bool is_loop(const Instruction& instruction) {
  return instruction.opcode == "while" || instruction.opcode == "stablehlo.while";
}

class CallGraph {
 public:
  explicit CallGraph(Program& program)
      : program_(program), state_(program.computations.size(), State::kNew) {}

  void run() {
    for (std::size_t i = 0; i < program_.computations.size(); ++i) visit(i);
    std::reverse(order_.begin(), order_.end());  // callers before callees
    seed();
    for (const std::size_t id : order_) pass_on(id);
  }

 private:
  enum class State : std::uint8_t { kNew, kOpen, kDone };

  /// A computation whose calls are being walked; the walk is iterative because calls may nest deeply.
  struct Visit {
    std::size_t id;
    std::size_t instruction = 0;
    std::size_t call = 0;
  };

  void visit(std::size_t first) {
    if (state_[first] != State::kNew) return;
    std::vector<Visit> open{{first}};
    state_[first] = State::kOpen;
    while (!open.empty()) {
      Visit& top = open.back();
      const auto& instructions = program_.computations[top.id].instructions;
      while (top.instruction < instructions.size() &&
             top.call >= instructions[top.instruction].called.size()) {
        ++top.instruction;
        top.call = 0;
      }
      if (top.instruction >= instructions.size()) {
        state_[top.id] = State::kDone;
        order_.push_back(top.id);
        open.pop_back();
        continue;
      }
      const Instruction& caller = instructions[top.instruction];
      const std::size_t callee = caller.called[top.call++].at();
      if (state_[callee] == State::kOpen) {
        throw UserError(program_.file, caller.position,
                        fmt::format("{} calls {}, which calls it again: computations must not recurse",
                                    caller.name, program_.computations[callee].name));
      }
      if (state_[callee] == State::kNew) {
        state_[callee] = State::kOpen;
        open.push_back({callee});
      }
    }
  }

  void seed() {
    if (program_.entry.valid()) {
      program_.computations[program_.entry.at()].executions = 1;
      return;
    }
    std::vector<bool> called(program_.computations.size(), false);
    for (const Computation& computation : program_.computations) {
      for (const Instruction& instruction : computation.instructions) {
        for (const ComputationId id : instruction.called) called[id.at()] = true;
      }
    }
    for (std::size_t i = 0; i < called.size(); ++i) program_.computations[i].executions = called[i] ? 0 : 1;
  }

  void pass_on(std::size_t id) {
    const Computation& caller = program_.computations[id];
    if (caller.executions == 0) return;
    for (std::size_t i = 0; i < caller.instructions.size(); ++i) {
      const Instruction& instruction = caller.instructions[i];
      if (instruction.called.empty()) continue;
      const bool loop = is_loop(instruction) && instruction.called.size() == 2;
      const std::int64_t trips = loop ? trips_of(id, i, instruction) : 1;
      for (std::size_t k = 0; k < instruction.called.size(); ++k) {
        // The condition is asked once more than the body runs.
        const std::int64_t times = loop && k == 0 && trips < INT64_MAX ? trips + 1 : trips;
        add(instruction, instruction.called[k], caller.executions, times);
      }
    }
  }

  std::int64_t trips_of(std::size_t id, std::size_t i, const Instruction& loop) {
    const auto trips = program_.trip_count(
        {ComputationId(static_cast<std::int32_t>(id)), InstructionId(static_cast<std::int32_t>(i))});
    if (trips) return *trips;
    program_.warnings.push_back(
        fmt::format("{}:{}:{}: the trip count of {} is not in the text; it counts as 1", program_.file,
                    loop.position.line, loop.position.column, loop.name));
    return 1;
  }

  void add(const Instruction& caller, ComputationId callee, std::int64_t executions, std::int64_t times) {
    std::int64_t& total = program_.computations[callee.at()].executions;
    std::int64_t more = 0;
    if (__builtin_mul_overflow(executions, times, &more) || __builtin_add_overflow(total, more, &total)) {
      throw UserError(program_.file, caller.position,
                      fmt::format("{} is executed more than 2^63 times", program_.computation(callee).name));
    }
  }

  Program& program_;
  std::vector<State> state_;
  std::vector<std::size_t> order_;
};

}  // namespace

void count_executions(Program& program) { CallGraph(program).run(); }

}  // namespace aoizora::ir
