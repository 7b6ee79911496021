#include "aoizora/ir/opcodes.h"

#include <array>
#include <vector>

#include "aoizora/ir/name_table.h"

namespace aoizora::ir {
namespace {

/// Operand counts from openxla.org/xla/operation_semantics; only opcodes whose count is fixed or bounded.
constexpr OpcodeInfo kOpcodes[] = {
    {"parameter", 0, 0, true},
    {"constant", 0, 0, true},
    {"iota", 0, 0},
    {"partition-id", 0, 0},
    {"replica-id", 0, 0},
    {"abs", 1, 1},
    {"acos", 1, 1},
    {"acosh", 1, 1},
    {"asin", 1, 1},
    {"asinh", 1, 1},
    {"atanh", 1, 1},
    {"bitcast", 1, 1},
    {"bitcast-convert", 1, 1},
    {"broadcast", 1, 1},
    {"cbrt", 1, 1},
    {"ceil", 1, 1},
    {"cholesky", 1, 1},
    {"collective-broadcast", 1, -1},
    {"convert", 1, 1},
    {"copy", 1, 1},
    {"copy-start", 1, 1},
    {"copy-done", 1, 1},
    {"cosh", 1, 1},
    {"cosine", 1, 1},
    {"count-leading-zeros", 1, 1},
    {"domain", 1, 1},
    {"erf", 1, 1},
    {"exponential", 1, 1},
    {"exponential-minus-one", 1, 1},
    {"fft", 1, 1},
    {"floor", 1, 1},
    {"get-dimension-size", 1, 1},
    {"get-tuple-element", 1, 1},
    {"imag", 1, 1},
    {"is-finite", 1, 1},
    {"log", 1, 1},
    {"log-plus-one", 1, 1},
    {"logistic", 1, 1},
    {"negate", 1, 1},
    {"not", 1, 1},
    {"optimization-barrier", 1, 1},
    {"popcnt", 1, 1},
    {"real", 1, 1},
    {"reduce-precision", 1, 1},
    {"reshape", 1, 1},
    {"reverse", 1, 1},
    {"round-nearest-afz", 1, 1},
    {"round-nearest-even", 1, 1},
    {"rsqrt", 1, 1},
    {"sign", 1, 1},
    {"sine", 1, 1},
    {"sinh", 1, 1},
    {"slice", 1, 1},
    {"sqrt", 1, 1},
    {"tan", 1, 1},
    {"tanh", 1, 1},
    {"transpose", 1, 1},
    {"while", 1, 1},
    {"all-gather-done", 1, 1},
    {"all-reduce-done", 1, 1},
    {"async-done", 1, 1},
    {"async-update", 1, 1},
    {"collective-permute-done", 1, 1},
    {"recv", 1, 1},
    {"recv-done", 1, 1},
    {"send-done", 1, 1},
    {"infeed", 1, 1},
    {"add", 2, 2},
    {"and", 2, 2},
    {"atan2", 2, 2},
    {"compare", 2, 2},
    {"complex", 2, 2},
    {"convolution", 2, 2},
    {"divide", 2, 2},
    {"dot", 2, -1},
    {"gather", 2, 2},
    {"maximum", 2, 2},
    {"minimum", 2, 2},
    {"multiply", 2, 2},
    {"or", 2, 2},
    {"outfeed", 2, 2},
    {"pad", 2, 2},
    {"power", 2, 2},
    {"remainder", 2, 2},
    {"send", 2, 2},
    {"set-dimension-size", 2, 2},
    {"shift-left", 2, 2},
    {"shift-right-arithmetic", 2, 2},
    {"shift-right-logical", 2, 2},
    {"stochastic-convert", 2, 2},
    {"subtract", 2, 2},
    {"triangular-solve", 2, 2},
    {"xor", 2, 2},
    {"clamp", 3, 3},
    {"select", 3, 3},
    {"select-and-scatter", 3, 3},
    {"batch-norm-inference", 5, 5},
    {"batch-norm-training", 3, 3},
    {"batch-norm-grad", 5, 5},
    {"ragged-all-to-all", 6, 6},
    {"all-gather", 1, -1},
    {"all-gather-start", 1, -1},
    {"all-reduce", 1, -1},
    {"all-reduce-start", 1, -1},
    {"all-to-all", 1, -1},
    {"reduce-scatter", 1, -1},
    {"collective-permute", 1, -1},
    {"collective-permute-start", 1, -1},
    {"concatenate", 1, -1},
    {"conditional", 2, -1},
    {"dynamic-slice", 1, -1},
    {"dynamic-update-slice", 2, -1},
    {"reduce", 2, -1},
    {"scatter", 3, -1},
    {"sort", 1, -1},
};

const NameTable& opcode_table() {
  static const NameTable& table = *[] {
    auto* const built = new NameTable;  // lives as long as the program
    for (std::size_t i = 0; i < std::size(kOpcodes); ++i) {
      built->insert(kOpcodes[i].name, static_cast<std::int32_t>(i));
    }
    return built;
  }();
  return table;
}

constexpr std::array<std::string_view, 9> kCollectiveNames = {
    "all-gather",         "all-reduce",           "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast", "send",           "recv"};

}  // namespace

const OpcodeInfo* find_opcode(std::string_view opcode) {
  const std::int32_t row = opcode_table().find(opcode);
  return row < 0 ? nullptr : &kOpcodes[row];
}

OpRole role_of(std::string_view opcode) {
  if (opcode.ends_with("-start") || opcode == "send" || opcode == "recv") return OpRole::kStart;
  if (opcode.ends_with("-done")) return OpRole::kDone;
  if (opcode.ends_with("-update")) return OpRole::kUpdate;
  return OpRole::kPlain;
}

std::optional<CollectiveKind> collective_kind(std::string_view opcode) {
  if (opcode.ends_with("-start")) opcode.remove_suffix(std::string_view("-start").size());
  // First letters of the nine names; most opcodes leave here.
  if (opcode.empty() || std::string_view("arcs").find(opcode[0]) == std::string_view::npos)
    return std::nullopt;
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    if (opcode == kCollectiveNames[i]) return static_cast<CollectiveKind>(i);
  }
  return std::nullopt;
}

std::string_view collective_name(CollectiveKind kind) {
  return kCollectiveNames[static_cast<std::size_t>(kind)];
}

}  // namespace aoizora::ir
