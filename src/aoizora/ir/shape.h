#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

/// Shapes of HLO and StableHLO values (openxla.org/xla/shapes, xla_data.proto).
namespace aoizora::ir {

enum class ElementType : std::uint8_t {
  kUnknown,  // a type name no rule knows; its byte size is 0 and it is warned about
  kPred,
  kS1,
  kS2,
  kS4,
  kS8,
  kS16,
  kS32,
  kS64,
  kU1,
  kU2,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kF4E2M1FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3FN,
  kF8E4M3B11FNUZ,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kTuple,
  kToken,
  kOpaque
};

struct Shape {
  ElementType element = ElementType::kUnknown;
  /// Sizes; for a bounded dynamic dimension (`<=N`) the bound, for an unbounded one (`?`) -1.
  std::vector<std::int64_t> dims;
  /// True where a dimension is dynamic; empty when none is.
  std::vector<bool> dynamic;
  /// Everything between the braces after the dimensions, as written (`1,0:T(8,128)(2,1)S(1)`); empty if none.
  std::string_view layout;
  /// `S(n)` of the layout: 0 is HBM, 1 is VMEM on TPU.
  std::int32_t memory_space = 0;
  /// `E(n)` of the layout in bits; 0 when not given.
  std::int32_t element_size_bits = 0;
  std::vector<Shape> tuple;

  bool is_tuple() const { return element == ElementType::kTuple; }
  /// Product of the dims (1 for a scalar); 0 for tuples, tokens and unbounded dims.
  std::int64_t element_count() const;
  /// Bytes of the values without layout padding, as jaxlib's ShapeUtil::ByteSizeOf(ignoring tiling) counts
  /// them: sub-byte types packed and rounded up to whole bytes per array; a tuple is the sum of its leaves.
  std::int64_t byte_size() const;
};

std::string_view element_type_name(ElementType type);
/// Width in bits; 0 for tuple, token, opaque and unknown. `pred` is 8.
int element_bits(ElementType type);

}  // namespace aoizora::ir
