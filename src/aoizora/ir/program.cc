#include "aoizora/ir/program.h"

#include <algorithm>

#include "aoizora/ir/storage.h"

namespace aoizora::ir {

std::optional<std::string_view> Instruction::attribute(std::string_view key) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [key](const Attribute& attribute) { return attribute.key == key; });
  if (found == attributes.end()) return std::nullopt;
  return found->value;
}

std::string_view braced_value(std::string_view braces, std::string_view key) {
  std::size_t at = 0;
  while ((at = braces.find(key, at)) != std::string_view::npos) {
    const bool starts = at == 0 || std::string_view("{, ").find(braces[at - 1]) != std::string_view::npos;
    at += key.size();
    if (!starts || at >= braces.size() || braces[at] != '=') continue;
    std::string_view value = braces.substr(at + 1);
    if (value.starts_with('"')) return value.substr(1, value.find('"', 1) - 1);
    return value.substr(0, value.find_first_of(",}"));
  }
  return {};
}

Program read_program(std::string text, std::string file) {
  // MLIR writes operations as `"dialect.op"(` or begins with `module` or `#loc`; HLO does neither.
  std::string_view rest = text;
  while (true) {
    const std::size_t start = rest.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos) throw UserError(file, {1, 1}, "the text is empty");
    rest.remove_prefix(start);
    if (!rest.starts_with("//")) break;
    const std::size_t newline = rest.find('\n');
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline);
  }
  const bool mlir = rest.starts_with('"') || rest.starts_with('#') || rest.starts_with("!") ||
                    rest.starts_with("module ") || rest.starts_with("module@") || rest.starts_with("module{");
  return mlir ? read_stablehlo(std::move(text), std::move(file)) : read_hlo(std::move(text), std::move(file));
}

}  // namespace aoizora::ir
