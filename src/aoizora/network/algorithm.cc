#include "aoizora/network/algorithm.h"

#include <algorithm>

#include "aoizora/base/error.h"
#include "aoizora/network/ring_order.h"

namespace aoizora::network {
namespace {

using topology::Router;
using topology::Slice;

bool says(const AlgorithmHint& hint, std::string_view what) {
  return hint.strategy.find(what) != std::string::npos;
}

/// The default needs 3 chips along both dimensions: over a 2x2 block the compiler prints a 1-D ring
/// (`UniDirection1DRingStrategy{colors:2 phases:1 cores:{4}}`), over 4x4 and 4x8 an N-dimensional one.
bool wants_nd(const Collective& collective, const GroupGrid& grid) {
  if (grid.free.size() < 2) {
    return false;
  }
  if (!collective.hint.strategy.empty()) {
    return says(collective.hint, "ND") || says(collective.hint, "2D");
  }
  if (collective.hint.has_reordering_map.has_value()) {
    return false;  // the 1-D emitters print it
  }
  for (std::size_t i = 0; i < grid.free.size(); ++i) {
    if (grid.extent(i) < 3) {
      return false;
    }
  }
  return true;
}

/// A one-direction colour goes all the way round, n-1 steps. `StrategyRing` sends whole shards both ways at
/// once, so half as many (the scaling book's hops X/2).
std::int32_t ring_steps(const AlgorithmHint& hint, std::size_t n) {
  const auto all = static_cast<std::int32_t>(n) - 1;
  return says(hint, "StrategyRing") ? (all + 1) / 2 : all;
}

UnitSchedule doubled(UnitSchedule schedule) {
  const std::size_t phases = schedule.phases.size();
  for (std::size_t i = 0; i < phases; ++i) {
    schedule.phases.push_back(schedule.phases[phases - 1 - i]);
  }
  return schedule;
}

}  // namespace

// `UniDirection...{colors:1}` uses one direction; two colours, and every other strategy, use both.
bool uses_both_directions(const AlgorithmHint& hint) {
  return !(says(hint, "UniDirection") && hint.colors == 1);
}

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kAllGather:
      return "all-gather";
    case Kind::kReduceScatter:
      return "reduce-scatter";
    case Kind::kAllReduce:
      return "all-reduce";
    case Kind::kAllToAll:
      return "all-to-all";
    case Kind::kPermute:
      return "collective-permute";
    case Kind::kBroadcast:
      return "collective-broadcast";
  }
  AOIZORA_CHECK(false, "no collective kind {}", static_cast<int>(kind));
}

Expander::Expander(const Router& router, std::span<const double> latencies, Assumptions assumptions)
    : router_(&router), latencies_(latencies), assumptions_(assumptions) {}

double Expander::path_latency(Chip from, Chip to) const {
  double latency = 0;
  for (const auto& [link, share] : router_->route(from, to)) {
    latency += share * latencies_[link.at()];
  }
  return latency;
}

std::vector<Chip> Expander::order_of(const Collective& collective, std::span<const Chip> group) const {
  bool reorder = assumptions_.ring == Assumptions::Ring::kReordered;
  if (assumptions_.ring == Assumptions::Ring::kAsCompiled) {
    reorder = collective.hint.has_reordering_map.has_value()
                  ? *collective.hint.has_reordering_map
                  : group_grid(router_->slice(), group).has_value();
  }
  return reorder ? ring_order(*router_, group) : std::vector<Chip>(group.begin(), group.end());
}

UnitSchedule Expander::expand(const Collective& collective, std::span<const Chip> group) const {
  if (group.size() <= 1) {
    return {{}, "nothing"};  // a group of one has all it needs
  }
  switch (collective.kind) {
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllReduce: {
      const auto grid = group_grid(router_->slice(), group);
      return grid && wants_nd(collective, *grid) ? nd_ring(collective, group) : ring(collective, group);
    }
    case Kind::kAllToAll:
      return exchange(collective, group);
    case Kind::kBroadcast:
      return broadcast(collective, group);
    case Kind::kPermute: {
      if (group[0] == group[1]) {
        return {{}, "nothing"};
      }
      const double latency = path_latency(group[0], group[1]);
      UnitPhase phase{{{group[0], group[1], 1.0, -1}}, 1, latency, latency};
      return {{std::move(phase)}, "permute"};
    }
  }
  AOIZORA_CHECK(false, "no collective kind {}", static_cast<int>(collective.kind));
}

void Expander::add_ring(std::span<const Chip> order, double share, bool both, UnitPhase& phase) const {
  const std::size_t n = order.size();
  const bool split = both && n > 2;  // two chips have one edge, whatever the direction
  const auto first = static_cast<std::int32_t>(phase.flows.size());
  const std::int32_t stride = split ? 2 : 1;
  for (std::size_t i = 0; i < n; ++i) {
    const Chip next = order[(i + 1) % n];
    const auto before = static_cast<std::int32_t>((i + n - 1) % n);
    const auto beyond = static_cast<std::int32_t>((i + 1) % n);
    phase.lead = std::max({phase.lead, path_latency(order[i], next), path_latency(next, order[i])});
    phase.flows.push_back({order[i], next, split ? share / 2 : share, first + stride * before});
    if (split) {
      phase.flows.push_back({next, order[i], share / 2, first + stride * beyond + 1});
    }
  }
}

double Expander::chain_latency(std::span<const Chip> order, std::size_t edges) const {
  const std::size_t n = order.size();
  double longest = 0;
  for (const bool backward : {false, true}) {
    std::vector<double> edge;
    for (std::size_t i = 0; i < n; ++i) {
      const Chip next = order[(i + 1) % n];
      edge.push_back(backward ? path_latency(next, order[i]) : path_latency(order[i], next));
    }
    for (std::size_t first = 0; first < n; ++first) {
      double sum = 0;
      for (std::size_t i = 0; i < edges; ++i) {
        sum += edge[(first + i) % n];
      }
      longest = std::max(longest, sum);
    }
  }
  return longest;
}

UnitSchedule Expander::ring(const Collective& collective, std::span<const Chip> group) const {
  const std::vector<Chip> order = order_of(collective, group);
  const std::size_t n = order.size();
  const bool both = uses_both_directions(collective.hint);
  UnitPhase phase;
  phase.steps = ring_steps(collective.hint, n);
  // Each member sends every shard but one on: (n-1)/n of the array passes each edge.
  add_ring(order, static_cast<double>(n - 1) / static_cast<double>(n), both, phase);
  phase.hop_latency = chain_latency(order, static_cast<std::size_t>(phase.steps));
  UnitSchedule schedule{{std::move(phase)}, both ? "ring, 2 directions" : "ring, 1 direction"};
  return collective.kind == Kind::kAllReduce ? doubled(std::move(schedule)) : schedule;
}

// Every rotation of the dimensions is one colour (two, counting directions) with its part of the array. Of an
// all-gather, a colour first gathers shards along its first dimension, then what it has along the next: phase
// p passes (n_p - 1) * (product of the earlier sizes) shards over each edge. A reduce-scatter is that
// backwards.
UnitSchedule Expander::nd_ring(const Collective& collective, std::span<const Chip> group) const {
  const Slice& slice = router_->slice();
  const GroupGrid grid = *group_grid(slice, group);
  const std::size_t dims = grid.free.size();
  const std::size_t rotations = collective.hint.colors == 1 ? 1 : dims;
  const double shard = 1.0 / static_cast<double>(group.size()) / static_cast<double>(rotations);
  const bool both = uses_both_directions(collective.hint);

  UnitSchedule gather{{}, ""};
  for (std::size_t p = 0; p < dims; ++p) {
    UnitPhase phase;
    phase.steps = 0;
    for (std::size_t rotation = 0; rotation < rotations; ++rotation) {
      double earlier = 1;
      for (std::size_t q = 0; q < p; ++q) {
        earlier *= static_cast<double>(grid.extent((rotation + q) % dims));
      }
      const std::size_t dim = grid.free[(rotation + p) % dims];
      const std::vector<std::int32_t>& values = grid.values[dim];
      const auto n = values.size();
      phase.steps = std::max(phase.steps, static_cast<std::int32_t>(n) - 1);
      for (const Chip first : group) {
        if (slice.coordinates(first)[dim] != values.front()) {
          continue;
        }
        std::vector<Chip> line;
        topology::Coordinates at = slice.coordinates(first);
        for (const std::int32_t value : values) {
          at[dim] = value;
          line.push_back(slice.at(at));
        }
        add_ring(line, static_cast<double>(n - 1) * earlier * shard, both, phase);
        phase.hop_latency = std::max(phase.hop_latency, chain_latency(line, n - 1));
      }
    }
    gather.phases.push_back(std::move(phase));
  }
  gather.algorithm = fmt::format("{}-D ring, {} colours", dims, rotations * (both ? 2 : 1));
  if (collective.kind != Kind::kAllGather) {
    std::reverse(gather.phases.begin(), gather.phases.end());
  }
  return collective.kind == Kind::kAllReduce ? doubled(std::move(gather)) : gather;
}

UnitSchedule Expander::exchange(const Collective& collective, std::span<const Chip> group) const {
  const std::size_t n = group.size();
  const bool ragged = !collective.ragged.empty();
  if (ragged && collective.ragged.size() != n * n) {
    user_error("a ragged all-to-all over {} members needs {} sizes, not {}", n, n * n,
               collective.ragged.size());
  }
  UnitPhase phase;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double share =
          ragged ? static_cast<double>(collective.ragged[i * n + j].value) : 1.0 / static_cast<double>(n);
      if (i == j || share == 0) {
        continue;
      }
      phase.flows.push_back({group[i], group[j], share, -1});
      phase.hop_latency = std::max(phase.hop_latency, path_latency(group[i], group[j]));
      phase.lead = phase.hop_latency;
    }
  }
  return {{std::move(phase)}, ragged ? "direct exchange, ragged" : "direct exchange"};
}

UnitSchedule Expander::broadcast(const Collective& collective, std::span<const Chip> group) const {
  // Each member is fed by the nearest one that is fed already (Prim's tree; ties to the earlier member), all
  // at once: the array is passed on as it arrives.
  (void)collective;
  const std::size_t n = group.size();
  UnitPhase phase;
  std::vector<std::size_t> fed{0};
  std::vector<double> reached(n, -1);
  std::vector<std::int32_t> depth(n, 0);
  reached[0] = 0;
  while (fed.size() < n) {
    std::size_t parent = n;
    std::size_t child = n;
    std::int32_t nearest = 0;
    for (const std::size_t from : fed) {
      for (std::size_t to = 0; to < n; ++to) {
        if (reached[to] >= 0) {
          continue;
        }
        const std::int32_t hops = router_->hops(group[from], group[to]);
        if (parent == n || hops < nearest) {
          parent = from;
          child = to;
          nearest = hops;
        }
      }
    }
    const double hop = path_latency(group[parent], group[child]);
    reached[child] = reached[parent] + hop;
    phase.lead = std::max(phase.lead, hop);
    phase.flows.push_back({group[parent], group[child], 1.0, -1});
    depth[child] = depth[parent] + 1;
    phase.steps = std::max(phase.steps, depth[child]);
    fed.push_back(child);
  }
  // The last member has the end of the array only after the whole of its way.
  phase.hop_latency = *std::max_element(reached.begin(), reached.end());
  return {{std::move(phase)}, "pipelined tree"};
}

}  // namespace aoizora::network
