#include <charconv>
#include <deque>
#include <vector>

#include "aoizora/ir/program.h"

/// How often a counted loop runs, from its own text: counter = constant; while (counter < limit) counter +=
/// step. The parts may hide in fusions and calls, behind copies, or travel through the loop unchanged.
namespace aoizora::ir {
namespace {

constexpr int kMaxSteps = 10'000;  // a bound on following operands; real chains have a few steps

/// A computation entered from a call; the outermost frame has no caller.
struct Frame {
  ComputationId computation;
  const Instruction* caller = nullptr;
  const Frame* parent = nullptr;
};

/// An instruction's value, or the tuple element of it that `path` (innermost index last) leads to.
struct Value {
  const Frame* frame = nullptr;
  InstructionId id;
  std::vector<std::int32_t> path;
};

std::string_view plain_opcode(const Instruction& instruction) {
  std::string_view opcode = instruction.opcode;
  for (const std::string_view dialect : {"stablehlo.", "func."}) {
    if (opcode.starts_with(dialect)) opcode.remove_prefix(dialect.size());
  }
  return opcode;
}

std::optional<std::int64_t> to_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class LoopReader {
 public:
  LoopReader(const Program& program, InstructionRef loop)
      : program_(program), loop_(loop), while_(program.instruction(loop)) {}

  std::optional<std::int64_t> trips() {
    if (while_.called.size() != 2 || while_.operands.empty()) return std::nullopt;
    for (const ComputationId id : while_.called) {  // a truncated text may hold an empty one
      if (!program_.computation(id).root.valid()) return std::nullopt;
    }
    const Frame* const condition = enter(while_.called[0], nullptr, nullptr);
    const Value test = follow(root_of(condition));
    const Instruction& compare = at(test);
    if (plain_opcode(compare) != "compare" || compare.operands.size() != 2) return std::nullopt;
    std::string direction(direction_of(compare));
    auto counter = state_index(follow(operand(test, 0)));
    auto limit = invariant(follow(operand(test, 1)));
    if (!counter || !limit || !step_of(*counter)) {  // written the other way round: limit > counter
      counter = state_index(follow(operand(test, 1)));
      limit = invariant(follow(operand(test, 0)));
      direction = direction == "LT"   ? "GT"
                  : direction == "GT" ? "LT"
                  : direction == "LE" ? "GE"
                  : direction == "GE" ? "LE"
                                      : direction;
    }
    if (!counter || !limit) return std::nullopt;
    const auto step = step_of(*counter);
    const auto first = initial(*counter);
    if (!step || !first) return std::nullopt;
    return count(*first, *limit, *step, direction);
  }

 private:
  static std::optional<std::int64_t> count(std::int64_t first, std::int64_t limit, std::int64_t step,
                                           std::string_view direction) {
    __extension__ using Wide = __int128;
    Wide distance = static_cast<Wide>(limit) - first;
    Wide width = step;
    if (direction == "GT" || direction == "GE") {
      distance = -distance;
      width = -width;
    }
    const bool inclusive = direction == "LE" || direction == "GE";
    if (direction == "NE") {
      if (width == 0 || distance % width != 0 || distance / width < 0) return std::nullopt;
      distance = distance / width;
      width = 1;
    } else if (direction != "LT" && direction != "GT" && !inclusive) {
      return std::nullopt;
    }
    if (inclusive) distance += 1;
    if (distance <= 0) return 0;
    if (width <= 0) return std::nullopt;  // it never ends
    const Wide trips = (distance + width - 1) / width;
    if (trips > INT64_MAX) return std::nullopt;
    return static_cast<std::int64_t>(trips);
  }

  const Frame* enter(ComputationId id, const Instruction* caller, const Frame* parent) {
    return &frames_.emplace_back(Frame{id, caller, parent});
  }
  const Instruction& at(const Value& value) const {
    return program_.computation(value.frame->computation).instructions[value.id.at()];
  }
  Value root_of(const Frame* frame) const {
    return {frame, program_.computation(frame->computation).root, {}};
  }
  Value operand(const Value& value, std::size_t index) const {
    const Operand& operand = at(value).operands[index];
    Value result{value.frame, operand.instruction, {}};
    if (operand.tuple_index >= 0) result.path.push_back(operand.tuple_index);
    return result;
  }

  /// Moves to operand `index`, keeping the path.
  void step_into(Value& value, std::size_t index) const {
    const Operand& operand = at(value).operands[index];
    value.id = operand.instruction;
    if (operand.tuple_index >= 0) value.path.push_back(operand.tuple_index);
  }

  /// Follows a value through everything that only passes it on.
  Value follow(Value value) {
    for (int steps = 0; steps < kMaxSteps; ++steps) {
      if (!follow_once(value)) break;
    }
    return value;
  }

  bool follow_once(Value& value) {
    const Instruction& instruction = at(value);
    const std::string_view opcode = plain_opcode(instruction);
    if (opcode == "parameter") return follow_parameter(value, instruction);
    if (opcode == "fusion" || opcode == "call") {
      if (instruction.called.size() != 1) return false;
      if (!program_.computation(instruction.called[0]).root.valid()) return false;
      const Frame* const frame = enter(instruction.called[0], &instruction, value.frame);
      value.frame = frame;
      value.id = program_.computation(frame->computation).root;
      return true;
    }
    if (opcode == "tuple" || opcode == "return") {
      std::size_t index = 0;
      if (value.path.empty()) {
        if (opcode == "tuple" || instruction.operands.size() != 1) return false;
      } else {
        index = static_cast<std::size_t>(value.path.back());
        if (index >= instruction.operands.size()) return false;
        value.path.pop_back();
      }
      step_into(value, index);
      return true;
    }
    if (opcode == "get-tuple-element") {
      const auto index = to_integer(instruction.attribute("index").value_or(""));
      if (!index || *index < 0 || *index > INT32_MAX) return false;
      value.path.push_back(static_cast<std::int32_t>(*index));
      step_into(value, 0);
      return true;
    }
    constexpr std::string_view kTransparent[] = {
        "copy",      "copy-start",           "copy-done",           "bitcast", "convert", "reshape",
        "broadcast", "optimization-barrier", "optimization_barrier"};
    for (const std::string_view name : kTransparent) {
      if (opcode != name || instruction.operands.empty()) continue;
      std::size_t index = 0;
      if (opcode == "optimization_barrier" && !value.path.empty()) {  // MLIR: one result per operand
        index = static_cast<std::size_t>(value.path.back());
        value.path.pop_back();
        if (index >= instruction.operands.size()) return false;
      }
      step_into(value, index);
      return true;
    }
    return false;
  }

  /// A value of an enclosing region (MLIR) has the same name there.
  bool follow_capture(Value& value, const Instruction& captured) {
    const ComputationId inside = value.frame->computation;
    const bool part_of_loop = inside == while_.called[0] || inside == while_.called[1];
    const ComputationId outside = part_of_loop ? loop_.computation : caller_of(inside);
    if (!outside.valid()) return false;
    const auto& instructions = program_.computation(outside).instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].name != captured.name) continue;
      value.frame = enter(outside, nullptr, nullptr);
      value.id = InstructionId(static_cast<std::int32_t>(i));
      return true;
    }
    return false;
  }

  ComputationId caller_of(ComputationId callee) const {
    for (std::size_t c = 0; c < program_.computations.size(); ++c) {
      for (const Instruction& instruction : program_.computations[c].instructions) {
        for (const ComputationId id : instruction.called) {
          if (id == callee) return ComputationId(static_cast<std::int32_t>(c));
        }
      }
    }
    return {};
  }

  bool follow_parameter(Value& value, const Instruction& parameter) {
    if (parameter.argument == "captured") return follow_capture(value, parameter);
    const auto number = to_integer(parameter.argument);
    const Frame* const frame = value.frame;
    if (!number || *number < 0 || frame->caller == nullptr) return false;
    if (static_cast<std::size_t>(*number) >= frame->caller->operands.size()) return false;
    const Operand& operand = frame->caller->operands[static_cast<std::size_t>(*number)];
    value.frame = frame->parent;
    value.id = operand.instruction;
    if (operand.tuple_index >= 0) value.path.push_back(operand.tuple_index);
    return true;
  }

  /// Which part of the loop's state a followed value is; nullopt when it is none.
  std::optional<std::int32_t> state_index(const Value& value) const {
    if (value.frame->caller != nullptr || plain_opcode(at(value)) != "parameter") return std::nullopt;
    const ComputationId inside = value.frame->computation;
    if (inside != while_.called[0] && inside != while_.called[1]) return std::nullopt;
    if (while_.operands.size() == 1 && !value.path.empty()) return value.path.back();
    const auto number = to_integer(at(value).argument);
    if (!number) return std::nullopt;
    return static_cast<std::int32_t>(*number);
  }

  std::optional<std::int64_t> constant(const Value& value) const {
    const Instruction& instruction = at(value);
    if (plain_opcode(instruction) != "constant") return std::nullopt;
    std::string_view text = instruction.argument;
    if (const auto dense = instruction.attribute("value")) {  // MLIR: dense<30> : tensor<i32>
      constexpr std::string_view kDense = "dense<";
      if (!dense->starts_with(kDense)) return std::nullopt;
      text = dense->substr(kDense.size());
      text = text.substr(0, text.find('>'));
    }
    return to_integer(text);
  }

  /// A constant, or a part of the state that the body passes on unchanged and that starts as a constant.
  std::optional<std::int64_t> invariant(const Value& value) {
    if (const auto known = constant(value)) return known;
    const auto index = state_index(value);
    if (!index) return std::nullopt;
    const auto next = state_index(follow(next_state(*index)));
    if (next != index) return std::nullopt;
    return initial(*index);
  }

  Value next_state(std::int32_t index) {
    Value next = root_of(enter(while_.called[1], nullptr, nullptr));
    if (while_.operands.size() > 1 || while_.shape->is_tuple() || at(next).opcode.ends_with("return")) {
      next.path.push_back(index);
    }
    return next;
  }

  std::optional<std::int64_t> initial(std::int32_t index) {
    const Frame* const outside = enter(loop_.computation, nullptr, nullptr);
    Value value{outside, loop_.instruction, {}};
    if (while_.operands.size() == 1 && while_.shape->is_tuple() && while_.operands[0].tuple_index < 0) {
      value.path.push_back(index);
      step_into(value, 0);
    } else {
      if (static_cast<std::size_t>(index) >= while_.operands.size()) return std::nullopt;
      step_into(value, static_cast<std::size_t>(index));
    }
    return constant(follow(value));
  }

  /// The constant that the body adds to the counter.
  std::optional<std::int64_t> step_of(std::int32_t index) {
    const Value next = follow(next_state(index));
    const Instruction& update = at(next);
    const std::string_view opcode = plain_opcode(update);
    if ((opcode != "add" && opcode != "subtract") || update.operands.size() != 2) return std::nullopt;
    const Value left = follow(operand(next, 0));
    const Value right = follow(operand(next, 1));
    if (state_index(left) == index) {
      const auto step = constant(right);
      if (!step || (opcode == "subtract" && *step == INT64_MIN)) return std::nullopt;
      return opcode == "add" ? *step : -*step;
    }
    if (opcode == "add" && state_index(right) == index) return constant(left);
    return std::nullopt;
  }

  static std::string_view direction_of(const Instruction& compare) {
    if (const auto direction = compare.attribute("direction")) return *direction;
    const std::string_view text = compare.attribute("comparison_direction").value_or("");
    for (const std::string_view name : {"LT", "LE", "GT", "GE", "NE", "EQ"}) {
      if (text.find(name) != std::string_view::npos) return name;
    }
    return {};
  }

  const Program& program_;
  InstructionRef loop_;
  const Instruction& while_;
  std::deque<Frame> frames_;
};

/// `"known_trip_count":{"n":"30"}` in backend_config, as JSON or as an escaped string.
std::optional<std::int64_t> known_trip_count(const Instruction& loop) {
  const std::string_view config = loop.attribute("backend_config").value_or("");
  std::size_t at = config.find("known_trip_count");
  if (at == std::string_view::npos) return std::nullopt;
  at += std::string_view("known_trip_count").size();
  const std::size_t digits = config.find_first_of("0123456789", at);
  if (digits == std::string_view::npos || digits - at > 16) return std::nullopt;
  const std::size_t end = config.find_first_not_of("0123456789", digits);
  return to_integer(config.substr(digits, end == std::string_view::npos ? end : end - digits));
}

}  // namespace

std::optional<std::int64_t> Program::trip_count(InstructionRef loop) const {
  const Instruction& instruction_of_loop = instruction(loop);
  if (const auto known = known_trip_count(instruction_of_loop)) return known;
  return LoopReader(*this, loop).trips();
}

}  // namespace aoizora::ir
