#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/ir/program.h"
#include "aoizora/ir/scanner.h"

/// Pieces of MLIR's generic form (mlir.llvm.org/docs/LangRef): attribute values, types, dense elements.
namespace aoizora::ir {

/// p stands at one of `( [ { <`; moves behind its partner. Strings, comments and `->` inside are skipped.
void skip_mlir_brackets(Scanner& scanner);

/// Moves behind an attribute value (with its `: type`), to the `,` or closing bracket that ends it.
std::string_view mlir_value(Scanner& scanner);

/// `key = value, flag, ...` up to `close`, which is left in place. A flag has an empty value.
std::vector<Attribute> mlir_fields(Scanner& scanner, char close);

/// Fields between the outermost `<` and `>` of an attribute such as `#stablehlo.channel_handle<handle = 1>`;
/// `text` must be a view into a text that ends with a zero byte. Empty when it has none.
std::vector<Attribute> inner_fields(std::string_view text, const std::string& file);
std::string_view field(const std::vector<Attribute>& fields, std::string_view key);

/// Text of a `"string"` attribute without its quotes; the text itself when it is none.
std::string_view unquoted(std::string_view value);
/// The name of `@name` or `@"name"`; empty when it is no symbol.
std::string_view symbol_name(std::string_view value);

/// Moves behind a type.
void skip_mlir_type(Scanner& scanner);
/// The shape of a type; a type without bytes of its own (`index`, function types, unknown dialects) is
/// kOpaque.
Shape parse_mlir_type(Scanner& scanner);

/// Integer elements of `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`, `dense<0> : ..`, `dense<"0x..">`,
/// `dense<>`.
struct DenseIntegers {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> values;
};
/// Throws UserError{file, at} when it is none, or has more than `limit` elements.
DenseIntegers parse_dense(std::string_view text, std::int64_t limit, const std::string& file, Position at);

}  // namespace aoizora::ir
