// The table of docs/placement.md: for each compiled program the order people get, Scotch's mapping, ours and
// the worst, timed by the event replay and by SimGrid, beside the certified bound:
//
//   place_table [--evaluations N] SLICE MESH FILE.hlo [SLICE MESH FILE.hlo ...]
//
// SimGrid times the whole step (simgrid_step.h); it gets the same flows, so it checks sharing and overlap,
// and whether the order of the placements is one of our replay only. Exit 1 when the default or Scotch's
// mapping is faster than ours by more than 0.01 % in either.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/search.h"
#include "scotch_mapping.h"
#include "simgrid_step.h"

namespace aoizora::referees {
namespace {

/// Less is a tie: a few microseconds of a step, latencies of single hops.
constexpr double kTie = 1e-4;

using topology::Placement;

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

struct Row {
  std::string slice_name, mesh, file;
  std::unique_ptr<topology::Slice> slice;
  simulate::Workload workload;
  std::unique_ptr<network::Model> model;
  place::Ranking ranking;
  std::vector<std::pair<std::string, Placement>> placements;  // default, Scotch, best, chosen, worst
  std::vector<double> replayed;                               // µs
};

/// Ranks, maps by Scotch and replays; SimGrid comes later, all at once.
Row make_row(const std::string& slice_name, const std::string& mesh, const std::string& path,
             std::int64_t evaluations) {
  Row row{slice_name, mesh, path.substr(path.rfind('/') + 1), {}, {}, {}, {}, {}, {}};
  row.slice = std::make_unique<topology::Slice>(topology::Slice::parse(slice_name));
  const network::Profile profile = network::Profile::builtin(row.slice->kind());
  row.workload = simulate::lower(ir::read_program(read_text(path), path), profile);
  row.model = std::make_unique<network::Model>(*row.slice, profile);
  place::Options options;
  options.evaluations = row.slice->chips() > 64 ? evaluations / 3 : evaluations;
  row.ranking = place::rank(row.workload, *row.slice, profile, parse_mesh(mesh), options, Cancel());
  const simulate::Replayer replayer(row.workload, *row.model);
  const auto step = [&](const Placement& placement) {
    return replayer.run(placement, simulate::Mode::kEvent).step.value;
  };
  const auto& baselines = row.ranking.baselines;
  for (const place::Scored& baseline : baselines) {
    if (baseline.placement.empty() || baseline.name == "row_major") continue;
    row.placements.emplace_back("default", baseline.placement);
    break;
  }
  const place::Problem problem(row.workload, *row.model);
  Placement scotch;
  double fastest = 0;
  for (const Placement& mapping : scotch_mappings(problem, *row.slice)) {
    const double time = step(mapping);
    if (!scotch.empty() && time >= fastest) continue;
    scotch = mapping;
    fastest = time;
  }
  row.placements.emplace_back("Scotch", scotch);
  row.placements.emplace_back("best", row.ranking.best.placement);
  row.placements.emplace_back("chosen", row.ranking.chosen.placement);
  row.placements.emplace_back("worst", row.ranking.worst.placement);
  for (const auto& [name, placement] : row.placements) row.replayed.push_back(step(placement));
  return row;
}

/// Prints a row; false when ours is beaten.
bool print(const Row& row, const std::vector<double>& simgrid) {
  fmt::print("{:<10} {:<8} {}\n", row.slice_name, row.mesh, row.file);
  const double best = row.replayed[2];
  const double best_simgrid = simgrid[2];
  bool good = true;
  for (std::size_t i = 0; i < row.placements.size(); ++i) {
    fmt::print("    {:<8} replay {:>12.1f} us ({:+7.2f} %)  SimGrid {:>12.1f} us ({:+7.2f} %)\n",
               row.placements[i].first, row.replayed[i], 100 * (row.replayed[i] / best - 1), simgrid[i],
               100 * (simgrid[i] / best_simgrid - 1));
    if (i < 2) good &= best <= row.replayed[i] * (1 + kTie) && best_simgrid <= simgrid[i] * (1 + kTie);
  }
  const auto& lock_step = row.ranking.lock_step;
  fmt::print("    bound    {:>19.1f} us, certified gap {:.2f} %{}{}\n", row.ranking.lower_bound.value,
             100 * row.ranking.gap, row.ranking.exact ? ", exact" : "",
             !lock_step              ? ""
             : lock_step->exhaustive ? ", in lock-step nothing is faster (exhaustive)"
                                     : fmt::format(", in lock-step {:.2f} %", 100 * lock_step->gap));
  if (!good) fmt::print("    BEATEN\n");
  return good;
}

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::int64_t evaluations = 200'000;
  if (arguments.size() >= 2 && arguments[0] == "--evaluations") {
    evaluations = std::stoll(arguments[1]);
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  if (arguments.empty() || arguments.size() % 3 != 0) {
    fmt::print(stderr, "usage: place_table [--evaluations N] SLICE MESH FILE.hlo ...\n");
    return 2;
  }
  std::vector<Row> rows;
  for (std::size_t i = 0; i < arguments.size(); i += 3) {
    rows.push_back(make_row(arguments[i], arguments[i + 1], arguments[i + 2], evaluations));
  }
  SimGridStep simgrid(argv[0]);
  std::vector<SimGridStep::Job> jobs;
  for (const Row& row : rows) {
    simgrid.add(*row.model);
    for (const auto& [name, placement] : row.placements)
      jobs.push_back({row.model.get(), &row.workload, placement, 0});
  }
  simgrid.run(jobs);
  bool good = true;
  std::size_t next = 0;
  for (const Row& row : rows) {
    std::vector<double> times;
    for (std::size_t i = 0; i < row.placements.size(); ++i) times.push_back(jobs[next++].step);
    good &= print(row, times);
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace aoizora::referees

int main(int argc, char** argv) {
  try {
    return aoizora::referees::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
