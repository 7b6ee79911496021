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

namespace {

/// Behind blanks and `//` comments.
std::string_view content_of(std::string_view text) {
  while (true) {
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos) return {};
    text.remove_prefix(start);
    if (!text.starts_with("//")) return text;
    const std::size_t newline = text.find('\n');
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline);
  }
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.starts_with(word) && (text.size() == word.size() || !Scanner::is_identifier(text[word.size()]));
}

}  // namespace

TextForm text_form(std::string_view text) {
  if (text.starts_with("ML\xefR")) return TextForm::kMlirBytecode;
  constexpr std::size_t kProbe = 4096;
  if (text.substr(0, kProbe).find('\0') != std::string_view::npos) return TextForm::kBinary;
  const std::string_view content = content_of(text);
  if (starts_with_word(content, "HloModule")) return TextForm::kHlo;
  if (content.starts_with('"')) return TextForm::kGenericMlir;
  for (const std::string_view word : {"module", "func.func", "sdy.mesh", "builtin.module"}) {
    if (starts_with_word(content, word)) return TextForm::kPrettyMlir;
  }
  if (content.starts_with('#') || content.starts_with('!')) {  // aliases; then the module in either form
    return text.find("\n\"builtin.module\"(") != std::string_view::npos ? TextForm::kGenericMlir
                                                                        : TextForm::kPrettyMlir;
  }
  return TextForm::kHlo;
}

Program read_program(std::string text, std::string file) {
  switch (text_form(text)) {
    case TextForm::kHlo:
      break;
    case TextForm::kGenericMlir:
      return read_stablehlo(std::move(text), std::move(file));
    case TextForm::kPrettyMlir:
      throw UserError(
          std::move(file), {1, 1},
          "MLIR in its pretty form is read by `aoizora inspect` with jaxlib installed; here the generic "
          "form is needed (get_asm(print_generic_op_form=True))");
    case TextForm::kMlirBytecode:
      throw UserError(
          std::move(file), {1, 1},
          "MLIR bytecode is read by `aoizora inspect` with jaxlib installed; here the generic form is "
          "needed (get_asm(print_generic_op_form=True))");
    case TextForm::kBinary:
      throw UserError(
          std::move(file), {1, 1},
          "the file is binary; HLO is read as text (compiled.as_text(), or XLA's --xla_dump_hlo_as_text)");
  }
  return read_hlo(std::move(text), std::move(file));
}

}  // namespace aoizora::ir
