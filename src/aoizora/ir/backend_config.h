#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aoizora/ir/program.h"

/// A typed view of an instruction's `backend_config`, read only when asked for (the raw text may hold a whole
/// compiled kernel).
namespace aoizora::ir {

/// TPU's `collective_algorithm_config`: what the compiler chose. `debug` is its text as written; the numbers
/// are taken from it where it has them.
struct CollectiveAlgorithm {
  std::string emitter;   // `RotatedPincerEmitter`, `1DAllGatherNonMajorDim`, ...
  std::string strategy;  // `UniDirection1DRingStrategy`, `StrategyRing`, ...; empty when not given
  std::string debug;
  std::optional<std::int64_t> colors;
  std::optional<std::int64_t> phases;
  /// Cores per phase for each colour: `cores:{4 4},{4 4}` → {{4,4},{4,4}}.
  std::vector<std::vector<std::int64_t>> cores;
  /// Dimensions each colour uses, in phase order: `dim_used:{0 1},{1 0}`.
  std::vector<std::vector<std::int64_t>> dims_used;
  std::optional<bool> has_reordering_map;
  std::optional<std::int64_t> group_size;
  std::optional<std::int64_t> shard_bytes;
};

/// Cost that a custom kernel (Pallas) declares.
struct KernelCost {
  double flops = 0;
  double transcendentals = 0;
  double bytes_accessed = 0;
  double remote_bytes = 0;
};

struct BackendConfig {
  /// Cycles of the TensorCore clock, as the compiler estimated them.
  std::optional<std::int64_t> estimated_cycles;
  std::optional<CollectiveAlgorithm> algorithm;
  std::optional<KernelCost> kernel_cost;
  std::optional<std::int64_t> known_trip_count;
};

/// The instruction's configuration; nullopt when it has none or it is no JSON object.
std::optional<BackendConfig> read_backend_config(const Instruction& instruction);

/// Only the cycles, without reading the JSON: `"estimated_cycles":"29986"` found in the text. For loops over
/// every instruction of a program.
std::optional<std::int64_t> estimated_cycles(const Instruction& instruction);

}  // namespace aoizora::ir
