#include "aoizora/ir/printer.h"

#include <fmt/format.h>

namespace aoizora::ir {
namespace {

void append_shape(std::string& out, const Shape& shape) {
  if (shape.is_tuple()) {
    out += '(';
    for (std::size_t i = 0; i < shape.tuple.size(); ++i) {
      if (i > 0) out += ", ";
      append_shape(out, shape.tuple[i]);
    }
    out += ')';
    return;
  }
  out += element_type_name(shape.element);
  out += '[';
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    if (i > 0) out += ',';
    const bool dynamic = i < shape.dynamic.size() && shape.dynamic[i];
    if (shape.dims[i] < 0) {
      out += '?';
    } else {
      out += fmt::format("{}{}", dynamic ? "<=" : "", shape.dims[i]);
    }
  }
  out += ']';
  if (!shape.layout.empty()) out += fmt::format("{{{}}}", shape.layout);
}

void append_attributes(std::string& out, std::span<const Attribute> attributes) {
  for (const Attribute& attribute : attributes) out += fmt::format(", {}={}", attribute.key, attribute.value);
}

void append_instruction(std::string& out, const Computation& computation, std::size_t index) {
  const Instruction& instruction = computation.instructions[index];
  const bool root = static_cast<std::size_t>(computation.root.value) == index;
  out += fmt::format("  {}%{} = ", root ? "ROOT " : "", instruction.name);
  append_shape(out, *instruction.shape);
  out += fmt::format(" {}({}", instruction.opcode, instruction.argument);
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const Operand& operand = instruction.operands[i];
    out += fmt::format("{}%{}", i > 0 ? ", " : "", computation.instructions[operand.instruction.at()].name);
    if (operand.tuple_index >= 0) out += fmt::format("#{}", operand.tuple_index);
  }
  out += ')';
  append_attributes(out, instruction.attributes);
  out += '\n';
}

nlohmann::ordered_json instruction_json(const Program& program, const Computation& computation,
                                        const Instruction& instruction) {
  nlohmann::ordered_json json;
  json["name"] = instruction.name;
  json["opcode"] = instruction.opcode;
  json["shape"] = print_shape(*instruction.shape);
  json["bytes"] = instruction.shape->byte_size();
  json["operands"] = nlohmann::ordered_json::array();
  for (const Operand& operand : instruction.operands) {
    json["operands"].push_back(computation.instructions[operand.instruction.at()].name);
  }
  json["calls"] = nlohmann::ordered_json::array();
  for (const ComputationId id : instruction.called) json["calls"].push_back(program.computation(id).name);
  json["line"] = instruction.position.line;
  return json;
}

}  // namespace

std::string print_shape(const Shape& shape) {
  std::string out;
  append_shape(out, shape);
  return out;
}

std::string print_hlo(const Program& program) {
  if (program.format != Program::Format::kHlo) {
    user_error("{}: a StableHLO program cannot be printed as HLO", program.file);
  }
  std::string out = fmt::format("HloModule {}", program.module.empty() ? "module" : program.module);
  append_attributes(out, program.module_attributes);
  out += "\n\n";
  if (!program.tables.empty()) out += fmt::format("{}\n\n", program.tables);
  for (const Computation& computation : program.computations) {
    out += fmt::format("{}%{} {{\n", computation.entry ? "ENTRY " : "", computation.name);
    for (std::size_t i = 0; i < computation.instructions.size(); ++i) append_instruction(out, computation, i);
    out += '}';
    append_attributes(out, computation.attributes);
    out += "\n\n";
  }
  return out;
}

nlohmann::ordered_json program_json(const Program& program) {
  nlohmann::ordered_json json;
  json["module"] = program.module;
  json["computations"] = nlohmann::ordered_json::array();
  for (const Computation& computation : program.computations) {
    nlohmann::ordered_json entry;
    entry["name"] = computation.name;
    entry["entry"] = computation.entry;
    entry["executions"] = computation.executions;
    entry["root"] =
        computation.root.valid() ? computation.instructions[computation.root.at()].name : std::string_view();
    entry["instructions"] = nlohmann::ordered_json::array();
    for (const Instruction& instruction : computation.instructions) {
      entry["instructions"].push_back(instruction_json(program, computation, instruction));
    }
    json["computations"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace aoizora::ir
