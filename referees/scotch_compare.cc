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

#include <cstdint>
#include <cstdio>
// scotch.h needs the two above and brings its own types.
#include <scotch.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/evaluator.h"
#include "aoizora/place/problem.h"
#include "aoizora/place/search.h"

namespace aoizora {
namespace {

/// Less is a tie: a few microseconds of a step, latencies of single hops.
constexpr double kTie = 1e-4;

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
std::optional<Placement> scotch_mapping(const place::Problem& problem, const Slice& slice, SCOTCH_Num seed,
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
  if (slice.cores() > 1 || slice.slices() > 1) user_error("{}: Scotch has no such architecture", slice_name);
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
  for (SCOTCH_Num seed = 0; seed < 8; ++seed) {
    for (const SCOTCH_Num flag : {SCOTCH_STRATDEFAULT, SCOTCH_STRATQUALITY}) {
      if (const auto placement = scotch_mapping(problem, slice, seed, flag)) {
        topology::check_placement(slice, *placement);
        const double step = replayer.run(*placement, simulate::Mode::kEvent).step.value;
        if (step >= scotch) continue;
        scotch = step;
        evaluator.assign(*placement);
        fast = evaluator.score();
      }
    }
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
