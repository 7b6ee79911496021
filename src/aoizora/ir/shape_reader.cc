#include "aoizora/ir/shape_reader.h"

#include <algorithm>
#include <limits>

namespace aoizora::ir {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

/// `S(n)` and `E(n)` stand after the colon, outside the parentheses of tiles (xla/layout.h,
/// Layout::ToString).
void read_layout(Scanner& scanner, Shape& shape) {
  const char* const open = scanner.p;
  scanner.skip_balanced();
  shape.layout = {open + 1, static_cast<std::size_t>(scanner.p - open) - 2};
  const std::size_t colon = shape.layout.find(':');
  if (colon == std::string_view::npos) return;
  const char* const end = scanner.p;
  int depth = 0;
  for (const char* at = open + 1 + colon; at + 2 < end; ++at) {
    if (*at == '(') ++depth;
    if (*at == ')') --depth;
    if (depth != 0 || at[1] != '(' || (*at != 'S' && *at != 'E')) continue;
    scanner.p = at + 2;
    const std::int64_t value = scanner.integer("a number in the layout");
    if (value < 0 || value > (1 << 20)) scanner.fail(at, "the layout's number is out of range");
    (*at == 'S' ? shape.memory_space : shape.element_size_bits) = static_cast<std::int32_t>(value);
  }
  scanner.p = end;
}

void read_dimension(Scanner& scanner, Shape& shape) {
  scanner.skip_space();
  bool dynamic = false;
  if (*scanner.p == '?') {
    ++scanner.p;
    dynamic = true;
    if (*scanner.p != '<') {
      shape.dynamic.resize(shape.dims.size(), false);
      shape.dims.push_back(-1);
      shape.dynamic.push_back(true);
      return;
    }
  }
  if (*scanner.p == '<') {
    if (scanner.p[1] != '=') scanner.fail(scanner.p, "expected '<=' before a dynamic dimension's bound");
    scanner.p += 2;
    dynamic = true;
  }
  const char* const at = scanner.p;
  const std::int64_t size = scanner.integer("a dimension (a number, '<=N' or '?')");
  if (size < 0) scanner.fail(at, "a dimension must not be negative");
  if (dynamic || !shape.dynamic.empty()) {
    shape.dynamic.resize(shape.dims.size(), false);
    shape.dynamic.push_back(dynamic);
  }
  shape.dims.push_back(size);
}

/// `{1,0}` right behind the dimensions; after blanks only when it cannot be a computation's body.
bool layout_follows(const Scanner& scanner) {
  if (*scanner.p == '{') return true;
  const char* at = scanner.p;
  while (*at == ' ') ++at;
  return at != scanner.p && *at == '{' && (Scanner::is_digit(at[1]) || at[1] == ':');
}

Shape parse_nested(Scanner& scanner, int depth);

Shape parse_tuple(Scanner& scanner, int depth) {
  if (depth > kMaxNesting) scanner.fail(scanner.p, fmt::format("tuples nest deeper than {}", kMaxNesting));
  Shape shape;
  shape.element = ElementType::kTuple;
  ++scanner.p;
  if (scanner.accept(')')) return shape;
  do {
    shape.tuple.push_back(parse_nested(scanner, depth + 1));
  } while (scanner.accept(','));
  scanner.expect(')', "',' or ')' in a tuple shape");
  return shape;
}

Shape parse_nested(Scanner& scanner, int depth) {
  scanner.skip_space();
  if (*scanner.p == '(') return parse_tuple(scanner, depth);
  const char* const start = scanner.p;
  const std::string_view name = scanner.identifier();
  if (name.empty()) scanner.fail_here("expected a shape such as f32[2,3]{1,0}");
  if (name == "b" && *scanner.p == '(') {  // a buffer: `b(f32[4])` holds what the array inside holds
    if (depth > kMaxNesting) scanner.fail(start, fmt::format("shapes nest deeper than {}", kMaxNesting));
    ++scanner.p;
    Shape inner = parse_nested(scanner, depth + 1);
    scanner.expect(')', "')' after a buffer's shape");
    return inner;
  }
  Shape shape;
  shape.element = element_type_from_name(name);
  if (shape.element == ElementType::kUnknown) {
    scanner.fail(start, fmt::format("'{}' is no element type", name.substr(0, 40)));
  }
  scanner.skip_space();
  if (*scanner.p != '[') scanner.fail_here("expected '[' after an element type");
  ++scanner.p;
  if (!scanner.accept(']')) {
    do {
      read_dimension(scanner, shape);
    } while (scanner.accept(','));
    scanner.expect(']', "',' or ']' after a dimension");
  }
  if (layout_follows(scanner)) {
    while (*scanner.p == ' ') ++scanner.p;
    read_layout(scanner, shape);
  }
  if (!shape.dynamic.empty()) shape.dynamic.resize(shape.dims.size(), false);
  check_shape_size(scanner, start, shape);
  return shape;
}

}  // namespace

ElementType element_type_from_name(std::string_view name) {
  static const NameTable& table = *[] {
    auto* const built = new NameTable;  // lives as long as the program; no destructor order to think about
    for (int i = 1; i <= static_cast<int>(ElementType::kOpaque); ++i) {
      if (static_cast<ElementType>(i) == ElementType::kTuple) continue;
      built->insert(element_type_name(static_cast<ElementType>(i)), i);
    }
    return built;
  }();
  const std::int32_t found = table.find(name);
  return found < 0 ? ElementType::kUnknown : static_cast<ElementType>(found);
}

void check_shape_size(Scanner& scanner, const char* at, const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape.dims) {
    // A size of 0 must not hide an overflow of the others: XLA refuses those too.
    if (dim > 0 && count > kMax / dim) scanner.fail(at, "the shape has more than 2^63 elements");
    if (dim > 0) count *= dim;
  }
  const int bits = std::max(shape.element_size_bits, element_bits(shape.element));
  if (bits > 8 && count / 8 > kMax / bits - 1) scanner.fail(at, "the shape has more than 2^63 bytes");
}

Shape parse_shape(Scanner& scanner) {
  scanner.skip_space();
  const char* const at = scanner.p;
  Shape shape = parse_nested(scanner, 0);
  if (!shape.is_tuple()) return shape;
  // Leaves are checked; their sum must fit too.
  std::vector<const Shape*> open{&shape};
  std::int64_t sum = 0;
  while (!open.empty()) {
    const Shape* const top = open.back();
    open.pop_back();
    for (const Shape& part : top->tuple) open.push_back(&part);
    if (!top->is_tuple() && __builtin_add_overflow(sum, top->byte_size(), &sum)) {
      scanner.fail(at, "the tuple has more than 2^63 bytes");
    }
  }
  return shape;
}

void skip_shape(Scanner& scanner) {
  scanner.skip_space();
  if (*scanner.p == '(') return scanner.skip_balanced();
  const std::string_view name = scanner.identifier();
  if (name == "b" && *scanner.p == '(') return scanner.skip_balanced();
  if (name.empty() || *scanner.p != '[') {
    parse_shape(scanner);  // rare spacing, or the error
    return;
  }
  scanner.skip_balanced();
  if (!layout_follows(scanner)) return;
  while (*scanner.p == ' ') ++scanner.p;
  scanner.skip_balanced();
}

const Shape* ShapeInterner::next(Scanner& scanner) {
  scanner.skip_space();
  const char* const start = scanner.p;
  skip_shape(scanner);
  const char* const end = scanner.p;
  const Shape* const shape = intern({start, static_cast<std::size_t>(end - start)}, [&] {
    scanner.p = start;
    return parse_shape(scanner);
  });
  scanner.p = end;
  return shape;
}

}  // namespace aoizora::ir
