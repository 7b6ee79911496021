#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>

#include "aoizora/base/file.h"
#include "aoizora/ir/program.h"

/// How fast HLO text is read, in MB/s on one core, and the peak memory as a multiple of the text.
///   build/release/bench/ir_bench                           the texts in tests/cases
///   AOIZORA_BENCH_TEXT=FILE build/release/bench/ir_bench   a text of yours (bench/ir_speed.py makes a large
///   one)
namespace {

std::string wan_text() {
  return aoizora::read_text(std::string(AOIZORA_SOURCE_DIR) +
                            "/tests/cases/hlo/wan_1.3b_480p_v5e_4x4_context4_tensor4.hlo.xz");
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void read(benchmark::State& state, const std::string& text) {
  for (auto _ : state) {
    // The copy is what a caller pays who keeps the text; it is part of the time.
    benchmark::DoNotOptimize(aoizora::ir::read_hlo(text, "bench"));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
  state.counters["MB"] = static_cast<double>(text.size()) / 1e6;
  state.counters["peak/text"] =
      static_cast<double>(peak_kilobytes()) * 1024 / static_cast<double>(text.size());
}

void BM_Wan(benchmark::State& state) { read(state, wan_text()); }
BENCHMARK(BM_Wan)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  if (const char* const path = std::getenv("AOIZORA_BENCH_TEXT")) {
    benchmark::RegisterBenchmark("BM_Own", [text = aoizora::read_text(path)](benchmark::State& state) {
      read(state, text);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
