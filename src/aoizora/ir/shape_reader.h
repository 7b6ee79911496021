#pragma once

#include <deque>
#include <string_view>

#include "aoizora/ir/name_table.h"
#include "aoizora/ir/scanner.h"
#include "aoizora/ir/shape.h"

namespace aoizora::ir {

/// Element type of an HLO name; kUnknown when there is none of that name.
ElementType element_type_from_name(std::string_view name);

/// The next shape in HLO's notation (openxla.org/xla/shapes): `f32[2,<=4]{1,0:T(8,128)S(1)}`, tuples,
/// `token[]`. Errors: unknown type, negative or more than 2^63 elements or bytes, nesting beyond
/// kMaxNesting.
Shape parse_shape(Scanner& scanner);

/// Checks that element count and byte size fit an int64; fails at `at` otherwise.
void check_shape_size(Scanner& scanner, const char* at, const Shape& shape);

/// Each distinct shape text is parsed once: compiled modules repeat few shapes many times.
class ShapeInterner {
 public:
  const Shape* next(Scanner& scanner);
  /// Stores a shape that no text names (MLIR result tuples).
  const Shape* add(Shape shape) {
    shapes_.push_back(std::move(shape));
    return &shapes_.back();
  }
  /// The shape of an equal text, parsed by `parse` the first time.
  template <typename Parse>
  const Shape* intern(std::string_view text, Parse parse) {
    const std::int32_t known = index_.insert(text, static_cast<std::int32_t>(by_text_.size()));
    if (static_cast<std::size_t>(known) == by_text_.size()) by_text_.push_back(add(parse()));
    return by_text_[static_cast<std::size_t>(known)];
  }

 private:
  NameTable index_;
  std::deque<Shape> shapes_;
  std::vector<const Shape*> by_text_;
};

/// Moves behind the next shape without reading it.
void skip_shape(Scanner& scanner);

}  // namespace aoizora::ir
