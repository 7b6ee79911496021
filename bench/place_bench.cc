#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

#include "aoizora/base/file.h"
#include "aoizora/base/random.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/local_search.h"
#include "aoizora/place/pool.h"
#include "aoizora/place/synthetic_testing.h"

// Speed of the placement search. Goals: at least 100,000 placements a second on one core by the fast bound
// for the Wan step on 16 chips; a certified gap of at most 10 % on 16x16 within 60 s on 2 cores (the curve of
// gap against time is GapAfter; `aoizora rank FILE --slice v5e:16x16 --budget 60s` gives it for a compiled
// program).
namespace aoizora::place {
namespace {

using namespace testing;  // NOLINT: the builders of synthetic_testing.h
using topology::Slice;

struct World {
  World(const char* slice_name, simulate::Workload w)
      : slice(Slice::parse(slice_name)),
        profile(network::Profile::builtin(slice.kind())),
        model(slice, profile),
        workload(std::move(w)),
        problem(workload, model) {}
  Slice slice;
  network::Profile profile;
  network::Model model;
  simulate::Workload workload;
  Problem problem;
};

simulate::Workload compiled_wan() {
  const std::string path =
      AOIZORA_SOURCE_DIR "/tests/cases/hlo/wan_1.3b_480p_v5e_4x4_context4_tensor4.hlo.xz";
  return simulate::lower(ir::read_program(read_text(path), path), network::Profile::builtin("v5e"));
}

/// The collectives of a Wan 14B block (all-gather of keys and values over context, all-reduces over tensor)
/// on a mesh of any size; compute as at 480p.
simulate::Workload wan_like(const LogicalMesh& mesh) {
  std::int32_t chips = 1;
  for (const std::int32_t size : mesh.shape) chips *= size;
  const double share = 1.0 / chips;
  Builder builder(chips);
  builder.loop(40);
  const std::int32_t keys =
      builder.start(over_axis(network::Kind::kAllGather, mesh, 0, 84'000'000 / mesh.shape[1]));
  builder.compute(share * 9.6e5).done(keys);
  builder.sync(over_axis(network::Kind::kAllGather, mesh, 0, 84'000'000 / mesh.shape[1]));
  builder.compute(share * 2.4e6);
  builder.sync(over_axis(network::Kind::kAllReduce, mesh, 1, 336'000'000 / mesh.shape[0]));
  builder.compute(share * 1.2e6);
  builder.sync(over_axis(network::Kind::kAllReduce, mesh, 1, 336'000'000 / mesh.shape[0]));
  builder.end_loop();
  return builder.workload();
}

void evaluate_swaps(benchmark::State& state, const World& world) {
  Evaluator evaluator(world.problem);
  evaluator.assign(topology::row_major(world.slice));
  const auto chips = static_cast<std::uint32_t>(world.slice.chips());
  Random random(1);
  for (auto _ : state) {
    evaluator.swap(random.below(chips), random.below(chips));
    benchmark::DoNotOptimize(evaluator.score());
  }
  state.counters["placements/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

/// A random walk: the hardest case, since most groups are new; a climb sees the same groups again.
void RandomWalkWan16(benchmark::State& state) { evaluate_swaps(state, World("v5e:4x4", compiled_wan())); }
BENCHMARK(RandomWalkWan16);

void ClimbWan16(benchmark::State& state) {
  const World world("v5e:4x4", compiled_wan());
  Evaluator evaluator(world.problem);
  std::int64_t evaluations = 0;
  std::uint64_t seed = 0;
  for (auto _ : state) {
    evaluations +=
        climb(evaluator, topology::row_major(world.slice), {seed++, 20'000, 0}, Cancel()).evaluations;
  }
  state.counters["placements/s"] =
      benchmark::Counter(static_cast<double>(evaluations), benchmark::Counter::kIsRate);
}
BENCHMARK(ClimbWan16)->Unit(benchmark::kMillisecond);

void RandomWalk256(benchmark::State& state) {
  evaluate_swaps(state, World("v5e:16x16", wan_like(LogicalMesh{{"context", "tensor"}, {32, 8}})));
}
BENCHMARK(RandomWalk256);

/// Certified gap by the fast score after so many milliseconds on 2 cores, context=32, tensor=8 on 16x16.
void GapAfter(benchmark::State& state) {
  const LogicalMesh mesh{{"context", "tensor"}, {32, 8}};
  const World world("v5e:16x16", wan_like(mesh));
  double gap = 0;
  for (auto _ : state) {
    const Cancel cancel(std::chrono::steady_clock::now() + std::chrono::milliseconds(state.range(0)));
    const LowerBound bound(world.problem);
    const Pool pool =
        fast_search(world.problem, bound, families(world.slice, mesh, 4000), 1'000'000'000, 0, 2, 64, cancel);
    gap = pool.entries.front().score / bound.step() - 1;
  }
  state.counters["gap_percent"] = 100 * gap;
}
BENCHMARK(GapAfter)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(5000)
    ->Arg(20000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace aoizora::place

BENCHMARK_MAIN();
