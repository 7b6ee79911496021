// Holds the placement search to Scotch (Pellegrini & Roman 1996), a general graph mapper that nobody here
// wrote:
//
//   scotch_compare SLICE MESH FILE.hlo [SLICE MESH FILE.hlo ...]
//
// The program's communication graph (bytes of a step between each pair of partitions, as the model's flows of
// row-major groups have them) is mapped by SCOTCH_graphMap onto Scotch's own mesh or torus of the slice, with
// its default and its quality strategy, several seeds. Scotch minimises bytes times distance and knows
// neither phases, links nor the schedule; so its mapping is replayed like ours. Prints JAX's default,
// Scotch's best and ours. Exit 1 when Scotch's is faster by more than 0.01 %.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/evaluator.h"
#include "aoizora/place/problem.h"
#include "aoizora/place/search.h"
#include "scotch_mapping.h"

namespace aoizora {
namespace {

/// Less is a tie: a few microseconds of a step, latencies of single hops.
constexpr double kTie = 1e-4;

using topology::Placement;
using topology::Slice;

place::LogicalMesh parse_mesh(std::string_view text) {
  place::LogicalMesh mesh;
  while (!text.empty()) {
    std::int32_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 1) user_error("a mesh is sizes like 2,2,4");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
    mesh.axes.push_back(fmt::format("m{}", mesh.axes.size()));
    mesh.shape.push_back(size);
  }
  return mesh;
}

bool compare(const std::string& slice_name, const std::string& mesh_text, const std::string& path) {
  const Slice slice = Slice::parse(slice_name);
  const network::Profile profile = network::Profile::builtin(slice.kind());
  const simulate::Workload workload = simulate::lower(ir::read_program(read_text(path), path), profile);
  place::Options options;
  options.assumptions = {network::Assumptions{}};
  options.evaluations = slice.chips() > 64 ? 60'000 : 200'000;
  options.exact_nodes = 0;
  const place::Ranking ranking =
      place::rank(workload, slice, profile, parse_mesh(mesh_text), options, Cancel());
  const network::Model model(slice, profile);
  const simulate::Replayer replayer(workload, model);
  const place::Problem problem(workload, model);
  double scotch = std::numeric_limits<double>::infinity();
  double fast = 0;  // of Scotch's best: the score that our search would have given it
  place::Evaluator evaluator(problem);
  for (const Placement& placement : referees::scotch_mappings(problem, slice)) {
    const double step = replayer.run(placement, simulate::Mode::kEvent).step.value;
    if (step >= scotch) continue;
    scotch = step;
    evaluator.assign(placement);
    fast = evaluator.score();
  }
  double jax = std::numeric_limits<double>::infinity();
  for (const place::Scored& baseline : ranking.baselines) {
    if (baseline.name == "default_split") jax = baseline.step.value;
  }
  const double best = ranking.best.step.value;
  const bool good = best <= scotch * (1 + kTie);
  fmt::print(
      "{:<10} {:<8} {:<46} JAX {:>12.1f} us ({:+6.2f} %)  Scotch {:>12.1f} us ({:+7.3f} %, "
      "fast {:.1f})  best {:>12.1f} us (fast {:.1f})  bound {:>12.1f} us ({:.2f} %)  {}\n",
      slice_name, mesh_text, path.substr(path.rfind('/') + 1), jax, 100 * (jax / best - 1), scotch,
      100 * (scotch / best - 1), fast, best, ranking.best.bound.value, ranking.lower_bound.value,
      100 * ranking.gap,
      !good                         ? "BEATEN"
      : best <= scotch * (1 + 1e-9) ? "ok"
                                    : "tie");
  std::fflush(stdout);
  return good;
}

}  // namespace
}  // namespace aoizora

int main(int argc, char** argv) {
  try {
    if (argc < 4 || (argc - 1) % 3 != 0) {
      fmt::print(stderr, "usage: scotch_compare SLICE MESH FILE.hlo ...\n");
      return 2;
    }
    bool good = true;
    for (int i = 1; i + 2 < argc; i += 3) good &= aoizora::compare(argv[i], argv[i + 1], argv[i + 2]);
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
