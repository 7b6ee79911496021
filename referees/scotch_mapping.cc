#include "scotch_mapping.h"

#include <cstdint>
#include <cstdio>
// scotch.h needs the two above and brings its own types.
#include <scotch.h>

#include <algorithm>
#include <map>

#include "aoizora/base/error.h"

namespace aoizora::referees {
namespace {

using topology::Placement;
using topology::Slice;

/// Bytes between partitions a < b over a step. Of a group of n in a ring every two that follow each other, of
/// an exchange every two.
std::map<std::pair<std::int32_t, std::int32_t>, double> communication(const place::Problem& problem) {
  std::map<std::pair<std::int32_t, std::int32_t>, double> bytes;
  for (const place::Structure& structure : problem.structures()) {
    for (const auto& group : structure.groups) {
      const auto n = static_cast<double>(group.size());
      const bool pairwise = structure.prototype.kind == network::Kind::kAllToAll;
      for (std::size_t i = 0; i < group.size(); ++i) {
        for (std::size_t k = i + 1; k < group.size(); ++k) {
          const bool follows = k == i + 1 || (i == 0 && k + 1 == group.size());
          if (!pairwise && !follows) continue;
          const double share = structure.permute ? 1 : pairwise ? 2 / n : (n - 1) / n;
          bytes[std::minmax(group[i], group[k])] += structure.volume * share;
        }
      }
    }
  }
  return bytes;
}

/// Scotch's mesh or torus with the slice's dimensions. A slice that wraps in one dimension only is given as a
/// torus: Scotch has no mixed one, and its mapping is scored on the true slice all the same.
void build_architecture(SCOTCH_Arch& architecture, const Slice& slice) {
  SCOTCH_Num dims[topology::kMaxDims] = {};
  bool wraps = false;
  const auto count = static_cast<SCOTCH_Num>(slice.dims().size());
  for (std::size_t d = 0; d < slice.dims().size(); ++d) {
    dims[d] = slice.dims()[d];
    wraps |= slice.wraps(static_cast<std::int32_t>(d));
  }
  const int failed =
      wraps ? SCOTCH_archTorusX(&architecture, count, dims) : SCOTCH_archMeshX(&architecture, count, dims);
  AOIZORA_CHECK(failed == 0, "Scotch refuses the architecture of {}", slice.name());
}

/// Scotch numbers the vertices of a mesh with the first dimension fastest, as Slice does.
std::optional<Placement> mapping(const place::Problem& problem, const Slice& slice, SCOTCH_Num seed,
                                 SCOTCH_Num strategy_flag) {
  const auto bytes = communication(problem);
  double largest = 1;
  for (const auto& [pair, volume] : bytes) largest = std::max(largest, volume);
  const auto n = static_cast<SCOTCH_Num>(problem.positions());
  std::vector<std::vector<std::pair<SCOTCH_Num, SCOTCH_Num>>> adjacent(static_cast<std::size_t>(n));
  for (const auto& [pair, volume] : bytes) {
    const auto load = std::max<SCOTCH_Num>(1, static_cast<SCOTCH_Num>(volume / largest * 10'000));
    adjacent[static_cast<std::size_t>(pair.first)].emplace_back(pair.second, load);
    adjacent[static_cast<std::size_t>(pair.second)].emplace_back(pair.first, load);
  }
  std::vector<SCOTCH_Num> first = {0}, edges, loads;
  for (const auto& list : adjacent) {
    for (const auto& [to, load] : list) {
      edges.push_back(to);
      loads.push_back(load);
    }
    first.push_back(static_cast<SCOTCH_Num>(edges.size()));
  }
  SCOTCH_Graph graph;
  SCOTCH_Arch architecture;
  SCOTCH_Strat strategy;
  SCOTCH_graphInit(&graph);
  SCOTCH_archInit(&architecture);
  SCOTCH_stratInit(&strategy);
  SCOTCH_randomSeed(seed);
  SCOTCH_randomReset();
  AOIZORA_CHECK(SCOTCH_graphBuild(&graph, 0, n, first.data(), nullptr, nullptr, nullptr,
                                  static_cast<SCOTCH_Num>(edges.size()), edges.data(), loads.data()) == 0,
                "Scotch refuses the graph");
  build_architecture(architecture, slice);
  SCOTCH_stratGraphMapBuild(&strategy, strategy_flag, n, 0.0);
  std::vector<SCOTCH_Num> part(static_cast<std::size_t>(n));
  const int failed = SCOTCH_graphMap(&graph, &architecture, &strategy, part.data());
  SCOTCH_stratExit(&strategy);
  SCOTCH_archExit(&architecture);
  SCOTCH_graphExit(&graph);
  if (failed != 0) return std::nullopt;
  // Scotch balances; it does not promise a bijection. Those that share a chip go to free ones, lowest first.
  std::vector<bool> used(static_cast<std::size_t>(n), false);
  Placement placement(static_cast<std::size_t>(n));
  std::vector<std::size_t> homeless;
  for (std::size_t p = 0; p < placement.size(); ++p) {
    const auto chip = static_cast<std::size_t>(part[p]);
    if (used[chip]) {
      homeless.push_back(p);
    } else {
      used[chip] = true;
      placement[p] = Chip(static_cast<std::int32_t>(chip));
    }
  }
  for (const std::size_t p : homeless) {
    const auto free = static_cast<std::size_t>(std::find(used.begin(), used.end(), false) - used.begin());
    used[free] = true;
    placement[p] = Chip(static_cast<std::int32_t>(free));
  }
  return placement;
}

}  // namespace

std::vector<Placement> scotch_mappings(const place::Problem& problem, const Slice& slice) {
  if (slice.cores() > 1 || slice.slices() > 1)
    user_error("{}: Scotch has no such architecture", slice.name());
  std::vector<Placement> mappings;
  for (SCOTCH_Num seed = 0; seed < 8; ++seed) {
    for (const SCOTCH_Num flag : {SCOTCH_STRATDEFAULT, SCOTCH_STRATQUALITY}) {
      if (auto found = mapping(problem, slice, seed, flag)) {
        topology::check_placement(slice, *found);
        mappings.push_back(std::move(*found));
      }
    }
  }
  return mappings;
}

}  // namespace aoizora::referees
