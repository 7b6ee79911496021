#include "aoizora/ir/mlir_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "aoizora/ir/shape_reader.h"

namespace aoizora::ir {
namespace {

char partner(char open) { return open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : '>'; }
bool is_open(char c) { return c == '(' || c == '[' || c == '{' || c == '<'; }
bool is_close(char c) { return c == ')' || c == ']' || c == '}' || c == '>'; }

/// Moves past one token-like piece that holds no bracket; false when p is at a bracket.
bool skip_plain(Scanner& scanner) {
  const char c = *scanner.p;
  if (c == '"') {
    scanner.skip_string();
  } else if (c == '-' && scanner.p[1] == '>') {
    scanner.p += 2;
  } else if (c == '/' && scanner.p[1] == '/') {
    scanner.skip_space();
  } else if (c == '\0') {
    if (scanner.at_end()) throw Truncated{scanner.p};
    ++scanner.p;
  } else if (is_open(c) || is_close(c)) {
    return false;
  } else {
    ++scanner.p;
  }
  return true;
}

std::string_view until(const char* start, const Scanner& scanner) {
  const char* end = scanner.p;
  while (end > start && Scanner::is_space(end[-1])) --end;
  return {start, static_cast<std::size_t>(end - start)};
}

bool is_key(char c) { return Scanner::is_identifier(c) || c == '$'; }

/// A key: bare (`sdy.sharding`) or quoted.
std::string_view key(Scanner& scanner) {
  const char* const start = scanner.p;
  if (*start == '"') {
    scanner.skip_string();
    return unquoted({start, static_cast<std::size_t>(scanner.p - start)});
  }
  while (is_key(*scanner.p)) ++scanner.p;
  if (scanner.p == start) scanner.fail_here("expected an attribute's name");
  return {start, static_cast<std::size_t>(scanner.p - start)};
}

}  // namespace

void skip_mlir_brackets(Scanner& scanner) {
  std::array<const char*, kMaxNesting> open;
  std::size_t depth = 0;
  if (!is_open(*scanner.p)) scanner.fail_here("expected an opening bracket");
  do {
    const char* const at = scanner.p;
    if (skip_plain(scanner)) continue;
    if (is_open(*at)) {
      if (depth == open.size()) scanner.fail(at, fmt::format("brackets nest deeper than {}", kMaxNesting));
      open[depth++] = at;
    } else if (*at != partner(*open[--depth])) {
      scanner.fail(at, fmt::format("expected '{}'", partner(*open[depth])));
    }
    ++scanner.p;
  } while (depth > 0);
}

std::string_view mlir_value(Scanner& scanner) {
  const char* const start = scanner.p;
  while (*scanner.p != ',' && !is_close(*scanner.p)) {
    if (is_open(*scanner.p)) {
      skip_mlir_brackets(scanner);
    } else {
      skip_plain(scanner);
    }
  }
  const std::string_view value = until(start, scanner);
  if (value.empty()) scanner.fail_here("expected a value");
  return value;
}

std::vector<Attribute> mlir_fields(Scanner& scanner, char close) {
  std::vector<Attribute> fields;
  scanner.skip_space();
  if (*scanner.p == close) return fields;
  while (true) {
    scanner.skip_space();
    Attribute attribute;
    attribute.position = scanner.position(scanner.p);
    attribute.key = key(scanner);
    if (scanner.accept('=')) {
      scanner.skip_space();
      attribute.value = mlir_value(scanner);
    }
    fields.push_back(attribute);
    if (scanner.accept(',')) continue;
    if (*scanner.p != close) scanner.fail_here(fmt::format("expected ',' or '{}' after an attribute", close));
    return fields;
  }
}

std::vector<Attribute> inner_fields(std::string_view text, const std::string& file) {
  const std::size_t open = text.find('<');
  if (open == std::string_view::npos) return {};
  Scanner scanner(text.substr(open + 1), file, CommentStyle::kMlir);
  return mlir_fields(scanner, '>');
}

std::string_view field(const std::vector<Attribute>& fields, std::string_view wanted) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [wanted](const Attribute& attribute) { return attribute.key == wanted; });
  return found == fields.end() ? std::string_view() : found->value;
}

std::string_view unquoted(std::string_view value) {
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
    return value.substr(1, value.size() - 2);
  return value;
}

std::string_view symbol_name(std::string_view value) {
  return value.starts_with('@') ? unquoted(value.substr(1)) : std::string_view();
}

namespace {

/// `8x?xf32` inside `tensor<..>`; p behind the `<`. Stops at the `,` or `>`.
void tensor_body(Scanner& scanner, Shape& shape) {
  while (true) {
    scanner.skip_space();
    if (*scanner.p == '?') {
      shape.dynamic.resize(shape.dims.size(), false);
      shape.dims.push_back(-1);
      shape.dynamic.push_back(true);
      ++scanner.p;
    } else if (Scanner::is_digit(*scanner.p)) {
      shape.dims.push_back(scanner.integer("a dimension"));
    } else {
      break;
    }
    if (*scanner.p != 'x') scanner.fail_here("expected 'x' after a dimension");
    ++scanner.p;
  }
  if (!shape.dynamic.empty()) shape.dynamic.resize(shape.dims.size(), false);
  shape.element = parse_mlir_type(scanner).element;
}

/// `#stablehlo.bounds<8, ?>` gives dynamic dimensions their bound.
void tensor_encoding(Scanner& scanner, Shape& shape) {
  const char* const start = scanner.p;
  const std::string_view text = mlir_value(scanner);
  const std::size_t bounds = text.find("bounds<");
  if (bounds == std::string_view::npos) return;
  Scanner inside({start + bounds + 7, static_cast<std::size_t>(scanner.end() - start) - bounds - 7},
                 scanner.file());
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    inside.skip_space();
    if (*inside.p == '?') {
      ++inside.p;
    } else {
      const std::int64_t bound = inside.integer("a bound");
      if (bound < 0) inside.fail(inside.p, "a bound must not be negative");
      if (shape.dims[i] == -1) shape.dims[i] = bound;
    }
    if (!inside.accept(',')) break;
  }
}

ElementType scalar_type(std::string_view name) {
  if (name == "i1") return ElementType::kPred;
  std::string hlo(name);
  std::transform(hlo.begin(), hlo.end(), hlo.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (hlo.starts_with("ui") || hlo.starts_with("si")) hlo.erase(1, 1);
  if (hlo.starts_with('i') && hlo.size() > 1 && Scanner::is_digit(hlo[1])) hlo[0] = 's';
  return element_type_from_name(hlo);
}

std::string_view type_word(Scanner& scanner) {
  const char* const start = scanner.p;
  if (*scanner.p == '!') ++scanner.p;
  while (Scanner::is_identifier(*scanner.p) && *scanner.p != '-') ++scanner.p;
  if (scanner.at_end()) throw Truncated{start};
  return {start, static_cast<std::size_t>(scanner.p - start)};
}

Shape parse_type(Scanner& scanner, int depth);

Shape parse_type_list(Scanner& scanner, char close, int depth) {
  Shape shape;
  shape.element = ElementType::kTuple;
  if (scanner.accept(close)) return shape;
  do {
    shape.tuple.push_back(parse_type(scanner, depth));
  } while (scanner.accept(','));
  if (!scanner.accept(close))
    scanner.fail_here(fmt::format("expected ',' or '{}' in a list of types", close));
  return shape;
}

Shape parse_type(Scanner& scanner, int depth) {
  if (depth > kMaxNesting) scanner.fail(scanner.p, fmt::format("types nest deeper than {}", kMaxNesting));
  scanner.skip_space();
  const char* const start = scanner.p;
  Shape shape;
  if (*start == '(') {  // function type
    skip_mlir_brackets(scanner);
    scanner.expect_arrow("'->' in a function type");
    scanner.skip_space();
    if (*scanner.p == '(') {
      skip_mlir_brackets(scanner);
    } else {
      parse_type(scanner, depth + 1);
    }
    shape.element = ElementType::kOpaque;
    return shape;
  }
  const std::string_view word = type_word(scanner);
  if (word.empty() || word == "!") scanner.fail_here("expected a type such as tensor<2x3xf32>");
  if (*scanner.p != '<') {
    shape.element = word.ends_with(".token") ? ElementType::kToken : scalar_type(word);
    if (shape.element == ElementType::kUnknown) shape.element = ElementType::kOpaque;
    return shape;
  }
  if (word == "tuple") {
    ++scanner.p;
    return parse_type_list(scanner, '>', depth + 1);
  }
  if (word == "tensor" || word == "vector" || word == "memref") {
    ++scanner.p;
    tensor_body(scanner, shape);
    if (scanner.accept(',')) {
      scanner.skip_space();
      tensor_encoding(scanner, shape);
    }
    while (scanner.accept(',')) mlir_value(scanner);  // memref's layout and memory space
    if (!scanner.accept('>')) scanner.fail_here("expected '>' after a tensor type");
    check_shape_size(scanner, start, shape);
    return shape;
  }
  const char* const open = scanner.p;
  skip_mlir_brackets(scanner);
  const char* const end = scanner.p;
  shape.element = ElementType::kOpaque;
  if (word == "complex" || word == "!quant.uniform") {
    scanner.p = open + 1;
    const ElementType part = parse_type(scanner, depth + 1).element;
    shape.element = part;  // a quantised value is stored as its integer
    if (word == "complex") shape.element = part == ElementType::kF64 ? ElementType::kC128 : ElementType::kC64;
    scanner.p = end;
  }
  return shape;
}

}  // namespace

void skip_mlir_type(Scanner& scanner) {
  scanner.skip_space();
  if (*scanner.p == '(') {
    parse_type(scanner, 0);
    return;
  }
  const std::string_view word = type_word(scanner);
  if (word.empty()) scanner.fail_here("expected a type such as tensor<2x3xf32>");
  if (*scanner.p == '<') skip_mlir_brackets(scanner);
}

Shape parse_mlir_type(Scanner& scanner) { return parse_type(scanner, 0); }

namespace {

class DenseReader {
 public:
  DenseReader(std::string_view text, std::int64_t limit, const std::string& file)
      : copy_(std::string(text) + " "), scan_(copy_, file, CommentStyle::kMlir), limit_(limit) {}

  DenseIntegers read() {
    constexpr std::string_view kDense = "dense<";
    if (!std::string_view(copy_).starts_with(kDense)) scan_.fail(scan_.p, "expected dense<..>");
    const char* const open = scan_.p + kDense.size() - 1;
    scan_.p = open;
    skip_mlir_brackets(scan_);
    scan_.expect(':', "': tensor<..>' after dense<..>");
    const Shape type = parse_mlir_type(scan_);
    DenseIntegers result;
    result.shape = type.dims;
    const std::int64_t count = type.element_count();
    if (count < 0 || count > limit_) scan_.fail(open, fmt::format("more than {} elements", limit_));
    const int bits = element_bits(type.element);
    scan_.p = open + 1;
    scan_.skip_space();
    if (*scan_.p == '"') {
      hex(result.values, count, bits);
    } else {
      list(result.values, count);
    }
    return result;
  }

 private:
  void list(std::vector<std::int64_t>& values, std::int64_t count) {
    int depth = 0;
    const char* const start = scan_.p;
    while (*scan_.p != '>') {
      const char c = *scan_.p;
      if (c == '[' || c == ']' || c == ',' || Scanner::is_space(c)) {
        depth += c == '[' ? 1 : c == ']' ? -1 : 0;
        ++scan_.p;
      } else {
        values.push_back(scan_.integer("an integer"));
        if (static_cast<std::int64_t>(values.size()) > limit_) scan_.fail(start, "too many elements");
      }
    }
    if (*start != '[' && values.size() == 1) values.resize(static_cast<std::size_t>(count), values[0]);
    if (depth != 0 || static_cast<std::int64_t>(values.size()) != count) {
      scan_.fail(start, fmt::format("{} elements, but the type has {}", values.size(), count));
    }
  }

  /// Bytes of the elements, little-endian; one element alone is a splat.
  void hex(std::vector<std::int64_t>& values, std::int64_t count, int bits) {
    const char* const start = scan_.p;
    scan_.skip_string();
    std::string_view digits = unquoted({start, static_cast<std::size_t>(scan_.p - start)});
    if (!digits.starts_with("0x") || bits % 8 != 0 || bits == 0 || bits > 64) {
      scan_.fail(start, "expected hexadecimal integers");
    }
    digits.remove_prefix(2);
    const auto width = static_cast<std::size_t>(bits) / 4;
    const bool splat = digits.size() == width;
    if (!splat && digits.size() != width * static_cast<std::size_t>(count)) {
      scan_.fail(start, "the hexadecimal text does not fit the type");
    }
    for (std::size_t at = 0; at + width <= digits.size(); at += width) {
      std::uint64_t value = 0;
      for (std::size_t byte = width / 2; byte-- > 0;) {
        unsigned part = 0;
        const char* const two = digits.data() + at + 2 * byte;
        if (std::from_chars(two, two + 2, part, 16).ptr != two + 2) scan_.fail(start, "no hexadecimal digit");
        value = value << 8 | part;
      }
      values.push_back(static_cast<std::int64_t>(value));
    }
    if (splat) values.resize(static_cast<std::size_t>(count), values.empty() ? 0 : values[0]);
  }

  std::string copy_;
  Scanner scan_;
  std::int64_t limit_;
};

}  // namespace

DenseIntegers parse_dense(std::string_view text, std::int64_t limit, const std::string& file, Position at) {
  try {
    return DenseReader(text, limit, file).read();
  } catch (const UserError& error) {
    throw UserError(file, at, error.message());
  } catch (const Truncated&) {
    throw UserError(file, at, "the elements are incomplete");
  }
}

}  // namespace aoizora::ir
