#include "aoizora/ir/shape.h"

#include <array>

#include "aoizora/base/error.h"

namespace aoizora::ir {
namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};

/// In the order of ElementType. Names as HLO prints them; widths from xla/primitive_util.h.
constexpr std::array<TypeRow, 36> kTypes = {{{"?", 0},          {"pred", 8},     {"s1", 1},
                                             {"s2", 2},         {"s4", 4},       {"s8", 8},
                                             {"s16", 16},       {"s32", 32},     {"s64", 64},
                                             {"u1", 1},         {"u2", 2},       {"u4", 4},
                                             {"u8", 8},         {"u16", 16},     {"u32", 32},
                                             {"u64", 64},       {"f4e2m1fn", 4}, {"f8e3m4", 8},
                                             {"f8e4m3", 8},     {"f8e4m3fn", 8}, {"f8e4m3b11fnuz", 8},
                                             {"f8e4m3fnuz", 8}, {"f8e5m2", 8},   {"f8e5m2fnuz", 8},
                                             {"f8e8m0fnu", 8},  {"f16", 16},     {"bf16", 16},
                                             {"f32", 32},       {"f64", 64},     {"c64", 64},
                                             {"c128", 128},     {"tuple", 0},    {"token", 0},
                                             {"opaque", 0}}};
static_assert(static_cast<std::size_t>(ElementType::kOpaque) + 1 <= kTypes.size());

const TypeRow& row(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view element_type_name(ElementType type) { return row(type).name; }
int element_bits(ElementType type) { return row(type).bits; }

std::int64_t Shape::element_count() const {
  if (element == ElementType::kTuple || element == ElementType::kToken || element == ElementType::kOpaque) {
    return 0;
  }
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return 0;
    const bool overflow = __builtin_mul_overflow(count, dim, &count);
    AOIZORA_CHECK(!overflow, "a reader let a shape of more than 2^63 elements through");
  }
  return count;
}

std::int64_t Shape::byte_size() const {
  if (is_tuple()) {
    std::int64_t sum = 0;
    for (const Shape& part : tuple) {
      const bool overflow = __builtin_add_overflow(sum, part.byte_size(), &sum);
      AOIZORA_CHECK(!overflow, "a reader let a tuple of more than 2^63 bytes through");
    }
    return sum;
  }
  const int bits = element_size_bits > 0 ? element_size_bits : element_bits(element);
  const std::int64_t count = element_count();
  // count * bits may pass 2^63 where the bytes do not, so whole bytes are counted apart.
  const std::int64_t whole = count / 8 * bits;
  return whole + (count % 8 * bits + 7) / 8;
}

}  // namespace aoizora::ir
