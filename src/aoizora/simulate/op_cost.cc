#include "aoizora/simulate/op_cost.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "aoizora/base/error.h"
#include "aoizora/ir/backend_config.h"
#include "aoizora/ir/opcodes.h"

namespace aoizora::simulate {
namespace {

using ir::ComputationId;
using ir::Instruction;
using ir::InstructionRef;
using ir::Program;
using ir::Shape;

template <std::size_t N>
bool one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Names a value or gives it another type or shape; no code on the core (xla HloInstruction semantics).
constexpr std::array<std::string_view, 14> kFree = {
    "parameter",    "constant",   "tuple",          "get-tuple-element", "bitcast",
    "after-all",    "domain",     "add-dependency", "opt-barrier",       "optimization-barrier",
    "partition-id", "replica-id", "call",           "get-dimension-size"};

/// Custom calls of the TPU compiler that only name memory. ConcatBitcast: the slices of a prefetch that were
/// copied side by side, seen as one.
constexpr std::array<std::string_view, 7> kFreeCustomCalls = {
    "\"ConcatBitcast\"", "\"AllocateBuffer\"",       "\"AsyncCollectiveStart\"", "\"AsyncCollectiveDone\"",
    "\"Sharding\"",      "\"SPMDFullToShardShape\"", "\"SPMDShardToFullShape\""};

/// Data ops that ir/opcodes.h needs no row for, because they take any number of operands.
constexpr std::array<std::string_view, 8> kAlsoData = {
    "fusion",          "map", "rng", "rng-bit-generator", "rng-get-and-update-state", "reduce-window",
    "dynamic-reshape", "copy"};

/// Known opcodes whose work is not proportional to their bytes.
constexpr std::array<std::string_view, 4> kNoRule = {"fft", "cholesky", "triangular-solve", "sort"};

std::vector<std::int64_t> numbers(std::string_view text) {
  std::vector<std::int64_t> found;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error == std::errc()) found.push_back(value);
    at = error == std::errc() ? next : at + 1;
  }
  return found;
}

const Shape& operand_shape(const Program& program, InstructionRef ref, std::size_t index) {
  const ir::Operand& operand = program.instruction(ref).operands[index];
  const Shape& shape = *program.instruction({ref.computation, operand.instruction}).shape;
  const auto element = static_cast<std::size_t>(operand.tuple_index);
  return operand.tuple_index >= 0 && element < shape.tuple.size() ? shape.tuple[element] : shape;
}

/// 2 * result elements * contracted elements.
double dot_flops(const Program& program, InstructionRef ref) {
  const Instruction& dot = program.instruction(ref);
  if (dot.operands.size() < 2) return 0;
  const Shape& left = operand_shape(program, ref, 0);
  double contracted = 1;
  for (const std::int64_t dim : numbers(dot.attribute("lhs_contracting_dims").value_or(""))) {
    if (dim >= 0 && static_cast<std::size_t>(dim) < left.dims.size()) {
      contracted *= static_cast<double>(left.dims[static_cast<std::size_t>(dim)]);
    }
  }
  return 2 * static_cast<double>(dot.shape->element_count()) * contracted;
}

/// 2 * result elements * kernel elements per output feature; `dim_labels=bf0_oi0->bf0` says which kernel
/// dimension is the output feature. Kernel taps on padding count too, as in XLA's own cost analysis without
/// its window trimming: an upper bound.
double convolution_flops(const Program& program, InstructionRef ref) {
  const Instruction& convolution = program.instruction(ref);
  if (convolution.operands.size() < 2) return 0;
  const Shape& kernel = operand_shape(program, ref, 1);
  const std::string_view labels = convolution.attribute("dim_labels").value_or("");
  const std::size_t begin = labels.find('_');
  const std::size_t end = labels.find("->");
  if (begin == std::string_view::npos || end == std::string_view::npos || end <= begin) return 0;
  const std::size_t output = labels.substr(begin + 1, end - begin - 1).find('o');
  double per_output = 1;
  for (std::size_t d = 0; d < kernel.dims.size(); ++d) {
    if (d != output) per_output *= static_cast<double>(kernel.dims[d]);
  }
  return 2 * static_cast<double>(convolution.shape->element_count()) * per_output;
}

/// Bytes that the instruction reads and writes. VMEM counts like HBM: no profile has its rate, and the ops
/// priced this way are those that the compiler did not price, all small.
double moved_bytes(const Program& program, InstructionRef ref) {
  double bytes = static_cast<double>(program.instruction(ref).shape->byte_size());
  for (std::size_t i = 0; i < program.instruction(ref).operands.size(); ++i) {
    bytes += static_cast<double>(operand_shape(program, ref, i).byte_size());
  }
  return bytes;
}

Micros roofline(double flops, double flops_per_micro, double bytes, const network::Profile& profile) {
  const double core = flops > 0 ? flops / flops_per_micro : 0;
  return Micros(std::max(core, bytes / (profile.hbm_bandwidth.value * profile.hbm_efficiency)));
}

/// Attention of q [.., sq, d] over k [.., skv, d] and v: two matrix products of 2 * batch*heads * sq * skv *
/// d each. 0 when the operands do not look like that.
double attention_flops(const Program& program, InstructionRef ref) {
  if (program.instruction(ref).operands.size() < 3) return 0;
  const auto& q = operand_shape(program, ref, 0).dims;
  const auto& k = operand_shape(program, ref, 1).dims;
  const auto& v = operand_shape(program, ref, 2).dims;
  if (q.size() < 3 || k.size() != q.size() || v.size() != q.size() || q.back() != k.back()) return 0;
  double flops = 4;
  for (const std::int64_t dim : q) flops *= static_cast<double>(dim);
  return flops * static_cast<double>(k[k.size() - 2]);
}

OpCost kernel(const Program& program, InstructionRef ref, const network::Profile& profile) {
  const double rate = profile.peak_flops_per_micro * profile.flash_efficiency;
  const auto config = ir::read_backend_config(program.instruction(ref));
  if (config && config->kernel_cost &&
      (config->kernel_cost->flops > 0 || config->kernel_cost->bytes_accessed > 0)) {
    const ir::KernelCost& cost = *config->kernel_cost;
    return {roofline(cost.flops, rate, cost.bytes_accessed, profile), PricedBy::kDeclaredCost, cost.flops};
  }
  const double bytes = moved_bytes(program, ref);
  if (const double flops = attention_flops(program, ref); flops > 0) {
    return {roofline(flops, rate, bytes, profile), PricedBy::kAttentionShape, flops};
  }
  return {roofline(0, rate, bytes, profile), PricedBy::kGuess, 0};
}

OpCost custom_call(const Program& program, InstructionRef ref, const network::Profile& profile) {
  const std::string_view target = program.instruction(ref).attribute("custom_call_target").value_or("");
  if (one_of(target, kFreeCustomCalls)) return {};
  if (target == "\"tpu_custom_call\"") return kernel(program, ref, profile);
  return {roofline(0, 1, moved_bytes(program, ref), profile), PricedBy::kGuess, 0};
}

/// A fusion that only carries the start or the end of a split collective: no data passes the core.
bool carries_only_a_collective(const Program& program, const Instruction& fusion) {
  for (const ComputationId called : fusion.called) {
    for (const Instruction& inner : program.computation(called).instructions) {
      if (inner.opcode != "custom-call") continue;
      const std::string_view target = inner.attribute("custom_call_target").value_or("");
      if (target == "\"AsyncCollectiveStart\"" || target == "\"AsyncCollectiveDone\"") return true;
    }
  }
  return false;
}

}  // namespace

double matmul_flops(const Program& program, ComputationId computation) {
  double flops = 0;
  const auto& instructions = program.computation(computation).instructions;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const InstructionRef ref{computation, ir::InstructionId(static_cast<std::int32_t>(i))};
    if (instructions[i].opcode == "dot") flops += dot_flops(program, ref);
    if (instructions[i].opcode == "convolution") flops += convolution_flops(program, ref);
    if (instructions[i].opcode == "fusion") {
      for (const ComputationId called : instructions[i].called) flops += matmul_flops(program, called);
    }
  }
  return flops;
}

OpCost price(const Program& program, InstructionRef ref, const network::Profile& profile) {
  const Instruction& instruction = program.instruction(ref);
  const std::string_view opcode = instruction.opcode;
  if (const auto cycles = ir::estimated_cycles(instruction); cycles && *cycles >= 0) {
    return {Micros(static_cast<double>(*cycles) / profile.clock_per_micro), PricedBy::kCompiler, 0};
  }
  if (one_of(opcode, kFree) || ir::role_of(opcode) != ir::OpRole::kPlain || ir::collective_kind(opcode))
    return {};
  if (opcode == "custom-call") return custom_call(program, ref, profile);
  const double bytes = moved_bytes(program, ref);
  const bool known = ir::find_opcode(opcode) != nullptr || one_of(opcode, kAlsoData);
  if (!known || one_of(opcode, kNoRule)) {
    return {roofline(0, 1, bytes, profile), PricedBy::kGuess, 0};
  }
  double flops = 0;
  if (opcode == "dot") flops = dot_flops(program, ref);
  if (opcode == "convolution") flops = convolution_flops(program, ref);
  if (opcode == "fusion") {
    if (carries_only_a_collective(program, instruction)) return {};
    for (const ComputationId called : instruction.called) flops += matmul_flops(program, called);
  }
  const double rate = profile.peak_flops_per_micro * profile.matmul_efficiency;
  return {roofline(flops, rate, bytes, profile), PricedBy::kRoofline, flops};
}

Micros dma_time(std::int64_t bytes, const network::Profile& profile) {
  return Micros(static_cast<double>(bytes) / (profile.hbm_bandwidth.value * profile.hbm_efficiency));
}

std::string_view priced_by_name(PricedBy by) {
  switch (by) {
    case PricedBy::kNothing:
      return "nothing";
    case PricedBy::kCompiler:
      return "compiler";
    case PricedBy::kDeclaredCost:
      return "declared cost";
    case PricedBy::kAttentionShape:
      return "attention shape";
    case PricedBy::kRoofline:
      return "roofline";
    case PricedBy::kGuess:
      return "unpriced";
  }
  AOIZORA_CHECK(false, "no source {}", static_cast<int>(by));
}

}  // namespace aoizora::simulate
