#include <benchmark/benchmark.h>

#include "aoizora/base/random.h"
#include "aoizora/network/bound_evaluator.h"

// Speed of the network model: the fast bound that a placement search calls (goal: 100,000 placements a second
// on a Wan step on one core), the full model, and how the latter grows with the flows.
namespace aoizora::network {
namespace {

using topology::Placement;
using topology::Slice;

std::vector<std::vector<Partition>> rows(std::int32_t count, std::int32_t size, bool columns) {
  std::vector<std::vector<Partition>> groups(static_cast<std::size_t>(count));
  for (std::int32_t g = 0; g < count; ++g) {
    for (std::int32_t i = 0; i < size; ++i) {
      groups[static_cast<std::size_t>(g)].push_back(Partition(columns ? i * count + g : g * size + i));
    }
  }
  return groups;
}

/// About what a compiled Wan step on mesh context=4, tensor=4 has: 20 collectives over rows or columns, four
/// kinds, many sizes, and two permute chains.
std::vector<Collective> wan_like(std::int32_t chips) {
  const std::int32_t side = chips == 16 ? 4 : chips / 8;
  std::vector<Collective> all;
  for (std::int32_t i = 0; i < 18; ++i) {
    Collective one;
    one.kind = i % 3 == 0 ? Kind::kAllReduce : i % 3 == 1 ? Kind::kAllGather : Kind::kReduceScatter;
    one.bytes = Bytes(100'000 * (i + 1));
    one.groups = rows(chips / side, side, i % 2 == 0);
    one.hint.has_reordering_map = i % 4 != 0;
    all.push_back(one);
  }
  for (std::int32_t shift : {1, side}) {
    Collective permute;
    permute.kind = Kind::kPermute;
    permute.bytes = Bytes(1'000'000);
    for (std::int32_t i = 0; i < chips; ++i) {
      permute.pairs.emplace_back(Partition(i), Partition((i + shift) % chips));
    }
    all.push_back(permute);
  }
  return all;
}

void placements(benchmark::State& state, const char* name, bool far) {
  const Slice slice = Slice::parse(name);
  const Model model(slice, Profile::builtin(slice.kind()));
  const std::vector<Collective> collectives = wan_like(static_cast<std::int32_t>(slice.chips()));
  BoundEvaluator evaluator(model, collectives);
  Placement placement = topology::row_major(slice);
  Random random(1);
  std::vector<double> micros(evaluator.size());
  for (auto _ : state) {
    if (far) {
      random.shuffle(placement);
    } else {
      std::swap(placement[random.below(static_cast<std::uint32_t>(placement.size()))], placement[0]);
    }
    evaluator.bounds(placement, micros);
    benchmark::DoNotOptimize(micros.data());
  }
  state.counters["placements/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(placements, swaps_16_chips, "v5e:4x4", false);
BENCHMARK_CAPTURE(placements, shuffles_16_chips, "v5e:4x4", true);
BENCHMARK_CAPTURE(placements, swaps_64_chips, "v5e:8x8", false);
BENCHMARK_CAPTURE(placements, swaps_256_chips, "v6e:16x16", false);

void cost(benchmark::State& state, const char* name, Kind kind) {
  const Slice slice = Slice::parse(name);
  const Model model(slice, Profile::builtin(slice.kind()));
  Collective one;
  one.kind = kind;
  one.bytes = Bytes(10'000'000);
  one.groups = rows(1, static_cast<std::int32_t>(slice.chips()), false);
  const Placement placement = topology::row_major(slice);
  std::size_t flows = 0;
  for (const Phase& phase : model.schedule(one, placement).phases) {
    flows += phase.flows.size();
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(model.cost(one, placement));
  }
  state.counters["flows"] = static_cast<double>(flows);
}
BENCHMARK_CAPTURE(cost, all_gather_16, "v5e:4x4", Kind::kAllGather)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(cost, all_reduce_64, "v5e:8x8", Kind::kAllReduce)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(cost, all_reduce_256, "v6e:16x16", Kind::kAllReduce)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(cost, all_to_all_16, "v5e:4x4", Kind::kAllToAll)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(cost, all_to_all_64, "v5e:8x8", Kind::kAllToAll)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(cost, all_to_all_256, "v6e:16x16", Kind::kAllToAll)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace aoizora::network

BENCHMARK_MAIN();
