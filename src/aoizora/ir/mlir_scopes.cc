#include "aoizora/ir/mlir_scopes.h"

#include <limits>

namespace aoizora::ir {

ComputationId Scopes::open(std::string_view name, bool isolated) {
  if (depth_ >= kMaxNesting) scan_.fail(scan_.p, fmt::format("regions nest deeper than {}", kMaxNesting));
  if (depth_ == scopes_.size()) scopes_.push_back(std::make_unique<Scope>());
  Scope& opened = *scopes_[depth_++];
  opened.id = ComputationId(static_cast<std::int32_t>(program_.computations.size()));
  opened.instructions.clear();
  opened.names.clear();
  opened.arguments = 0;
  opened.isolated = isolated;
  opened.has_pending = false;
  Computation computation;
  computation.name = name;
  program_.computations.push_back(std::move(computation));
  return opened.id;
}

void Scopes::close(bool truncated) {
  Scope& closed = innermost();
  if (truncated && closed.has_pending) {
    closed.pending.called = storage_.arena.copy(closed.pending_called);
    closed.pending.shape = empty_tuple();
    closed.instructions.push_back(closed.pending);
  }
  Computation& computation = program_.computations[closed.id.at()];
  computation.instructions.assign(closed.instructions.begin(), closed.instructions.end());
  if (!closed.instructions.empty()) {
    computation.root = InstructionId(static_cast<std::int32_t>(closed.instructions.size()) - 1);
  }
  --depth_;
}

InstructionId Scopes::append(Scope& to, const Instruction& instruction) {
  if (to.instructions.size() >= std::numeric_limits<std::int32_t>::max()) {
    scan_.fail(scan_.p, "too many operations");
  }
  const auto id = static_cast<std::int32_t>(to.instructions.size());
  if (!instruction.name.empty() && to.names.insert(instruction.name, id) != id) {
    throw UserError(program_.file, instruction.position,
                    fmt::format("%{} is defined twice", instruction.name));
  }
  to.instructions.push_back(instruction);
  return InstructionId(id);
}

InstructionId Scopes::find(std::string_view name, const char* at) {
  std::size_t level = depth_;
  std::int32_t found = -1;
  while (level > 0) {
    const Scope& here = *scopes_[level - 1];
    found = here.names.find(name);
    if (found >= 0 || here.isolated) break;
    --level;
  }
  if (found < 0) scan_.fail(at, fmt::format("no value %{} before this", name));
  for (; level < depth_; ++level) {
    Instruction capture = scopes_[level - 1]->instructions[static_cast<std::size_t>(found)];
    capture.opcode = "parameter";
    capture.argument = "captured";
    capture.operands = {};
    capture.attributes = {};
    capture.called = {};
    found = append(*scopes_[level], capture).value;
  }
  return InstructionId(found);
}

const Shape* Scopes::empty_tuple() {
  if (empty_tuple_ == nullptr) {
    Shape shape;
    shape.element = ElementType::kTuple;
    empty_tuple_ = storage_.shapes.add(std::move(shape));
  }
  return empty_tuple_;
}

}  // namespace aoizora::ir
