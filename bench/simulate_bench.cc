#include <benchmark/benchmark.h>

#include <cstdlib>

#include "aoizora/base/file.h"
#include "aoizora/base/random.h"
#include "aoizora/simulate/replay.h"

// Speed of lowering and replay on the compiled Wan 1.3B step for v5e:4x4 (tests/cases/hlo). Goals on one
// core: lock-step 1 ms, event 20 ms, 100,000 bounds a second. Other programs: AOIZORA_BENCH_HLO and _SLICE.
namespace aoizora::simulate {
namespace {

using topology::Placement;
using topology::Slice;

struct Fixture {
  Fixture()
      : file(environment("AOIZORA_BENCH_HLO", AOIZORA_SOURCE_DIR
                         "/tests/cases/hlo/wan_1.3b_480p_v5e_4x4_context4_tensor4.hlo.xz")),
        slice(Slice::parse(environment("AOIZORA_BENCH_SLICE", "v5e:4x4"))),
        profile(network::Profile::builtin(slice.kind())),
        program(ir::read_hlo(read_text(file), file)),
        workload(lower(program, profile)),
        model(slice, profile),
        replayer(workload, model) {
    Random random(1);
    for (int i = 0; i < 1000; ++i) {
      Placement placement = topology::row_major(slice);
      random.shuffle(placement);
      placements.push_back(std::move(placement));
    }
  }
  static std::string environment(const char* name, const char* otherwise) {
    const char* const value = std::getenv(name);
    return value == nullptr ? otherwise : value;
  }

  std::string file;
  Slice slice;
  network::Profile profile;
  ir::Program program;
  Workload workload;
  network::Model model;
  Replayer replayer;
  std::vector<Placement> placements;  // random ones
};

const Fixture& fixture() {
  static const Fixture made;
  return made;
}

void lower_program(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(lower(fixture().program, fixture().profile));
}
BENCHMARK(lower_program)->Unit(benchmark::kMicrosecond);

void replay(benchmark::State& state, Mode mode, bool random) {
  const Placement rows = topology::row_major(fixture().slice);
  std::size_t i = 0;
  for (auto _ : state) {
    const Placement& placement = random ? fixture().placements[i++ % fixture().placements.size()] : rows;
    benchmark::DoNotOptimize(fixture().replayer.run(placement, mode));
  }
}
BENCHMARK_CAPTURE(replay, lock_step_rows, Mode::kLockStep, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(replay, event_rows, Mode::kEvent, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(replay, lock_step_random, Mode::kLockStep, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(replay, event_random, Mode::kEvent, true)->Unit(benchmark::kMicrosecond);

/// Per second: placements bounded. `swap`: each differs from the last by a swap of two, as in a search.
void bound(benchmark::State& state, bool swap) {
  Placement placement = fixture().placements[0];
  Random random(2);
  const auto size = static_cast<std::uint32_t>(placement.size());
  std::size_t i = 0;
  for (auto _ : state) {
    if (swap) {
      std::swap(placement[random.below(size)], placement[random.below(size)]);
    } else {
      placement = fixture().placements[i++ % fixture().placements.size()];
    }
    benchmark::DoNotOptimize(fixture().replayer.bound(placement));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(bound, swap, true);
BENCHMARK_CAPTURE(bound, random, false);

}  // namespace
}  // namespace aoizora::simulate

BENCHMARK_MAIN();
