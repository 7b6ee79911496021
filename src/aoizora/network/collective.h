#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aoizora/base/units.h"

/// What the network model is asked to price (N3). Independent of the IR: simulate/ makes these from a
/// Program, `aoizora cost` from its flags.
namespace aoizora::network {

enum class Kind : std::uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllToAll, kPermute, kBroadcast };
std::string_view kind_name(Kind kind);  // as in HLO: `all-gather`, `collective-permute`

/// What the compiler says of the algorithm, from `collective_algorithm_config`.
struct AlgorithmHint {
  std::string strategy;     // `StrategyRing`, `UniDirection1DRingStrategy`, `UniDirectionNDRingStrategy`, ...
  std::int32_t colors = 0;  // 0: not said
  std::int32_t phases = 0;
  std::vector<std::int32_t> cores;
  /// True: the compiler orders the ring itself (regular groups); false: the ring follows the group's order.
  std::optional<bool> has_reordering_map;
  friend bool operator==(const AlgorithmHint&, const AlgorithmHint&) = default;
};

struct Collective {
  Kind kind{};
  /// All-gather, reduce-scatter, all-reduce, broadcast: the full array of one group member's result before
  /// scattering or after gathering. All-to-all and permute: the per-device buffer.
  Bytes bytes;
  /// Groups of partitions, in the group's order. All groups run at once. Sizes may differ.
  std::vector<std::vector<Partition>> groups;
  /// Permute only: (source, target).
  std::vector<std::pair<Partition, Partition>> pairs;
  AlgorithmHint hint;
  /// Ragged all-to-all only: what member i sends to member j, at [i * n + j], the same in every group of n.
  /// `bytes` is then not read. Empty: even.
  std::vector<Bytes> ragged;
};

/// Choices that no public source settles (N9). Each is one named assumption.
struct Assumptions {
  enum class Ring : std::uint8_t { kAsCompiled, kGiven, kReordered };
  enum class Routing : std::uint8_t { kDimensionOrderXY, kDimensionOrderYX, kSplitTies };
  /// kAsCompiled follows has_reordering_map where known and reorders regular groups otherwise.
  Ring ring = Ring::kAsCompiled;
  Routing routing = Routing::kDimensionOrderXY;
  friend bool operator==(const Assumptions&, const Assumptions&) = default;
};

}  // namespace aoizora::network
