// Holds the placement search to enumeration, for compiled programs:
//
//   place_study [--sample N] [--starts N] [--evaluations N] SLICE MESH FILE.hlo [SLICE MESH FILE.hlo ...]
//   place_study v5e:2x4 1,4,2 step.hlo v5e:4x4 2,2,4 other.hlo
//
// 8 chips: every order (up to the symmetries of the slice that keep routes) by full event replay. More: every
// structured placement, N random orders and local searches from N random starts; what a certified floor does
// not rule out is replayed.
// Prints one line a program: what rank() found, what the referee found, the certified bound. Exit 1 when the
// referee finds something faster (above 8 chips: by more than 0.1 %).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <string_view>
#include <vector>

#include "aoizora/base/file.h"
#include "aoizora/base/parallel.h"
#include "aoizora/base/random.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/families.h"
#include "aoizora/place/local_search.h"
#include "aoizora/place/search.h"
#include "aoizora/topology/symmetry.h"

namespace aoizora {
namespace {

using simulate::Mode;
using topology::Placement;

/// What rank() calls no gain (search.cc, kLeastGain). Above 8 chips the fast score cannot see what devices
/// that drift apart gain, and of the many placements within a hair of each other only some hundred are
/// replayed.
constexpr double kTie = 1e-3;

struct Settings {
  std::size_t sample = 1'000'000;
  std::size_t starts = 100;
  std::int64_t evaluations = 200'000;
};

struct Found {
  double step = std::numeric_limits<double>::infinity();  // µs, event replay
  std::size_t tried = 0;
  std::size_t replayed = 0;
  std::size_t structured = 0;
};

/// Replays every order of a small slice; the first chip one of each orbit of the symmetries.
Found every_order(const simulate::Replayer& replayer, const network::Model& model) {
  const auto chips = static_cast<std::int32_t>(model.slice().chips());
  const auto symmetries = topology::symmetries(model.slice(), model.router().rule());
  std::vector<std::int32_t> firsts;
  for (std::int32_t c = 0; c < chips; ++c) {
    if (std::all_of(symmetries.begin(), symmetries.end(), [&](const topology::Symmetry& s) {
          return s.map[static_cast<std::size_t>(c)].value >= c;
        })) {
      firsts.push_back(c);
    }
  }
  // One task for each choice of the first two chips.
  std::vector<std::pair<std::int32_t, std::int32_t>> tasks;
  for (const std::int32_t first : firsts) {
    for (std::int32_t second = 0; second < chips; ++second) {
      if (second != first) tasks.emplace_back(first, second);
    }
  }
  std::vector<Found> found(tasks.size());
  parallel_for(tasks.size(), 0, [&](std::size_t t) {
    std::vector<std::int32_t> rest;
    for (std::int32_t c = 0; c < chips; ++c) {
      if (c != tasks[t].first && c != tasks[t].second) rest.push_back(c);
    }
    do {
      Placement placement = {Chip(tasks[t].first), Chip(tasks[t].second)};
      for (const std::int32_t c : rest) placement.emplace_back(c);
      found[t].step = std::min(found[t].step, replayer.run(placement, Mode::kEvent).step.value);
      ++found[t].tried;
    } while (std::next_permutation(rest.begin(), rest.end()));
  });
  Found best;
  for (const Found& one : found) {
    best.step = std::min(best.step, one.step);
    best.tried += one.tried;
  }
  return best;
}

/// More than 8 chips: every structured placement, random orders and climbs from random starts. A placement is
/// replayed unless its certified floor (Evaluator::floor: no replay of it is faster) is at or above what
/// rank() found: it cannot beat that then, so nothing is lost. Where climbs end is replayed in any case.
class Sampler {
 public:
  Sampler(const simulate::Replayer& replayer, const place::Problem& problem, const place::LogicalMesh& mesh,
          double to_beat, const Settings& settings)
      : replayer_(replayer), problem_(problem), mesh_(mesh), to_beat_(to_beat), settings_(settings) {}

  Found run() {
    const auto structured = place::families(problem_.model().slice(), mesh_, kFamilies);
    const std::size_t tasks = settings_.starts;
    std::vector<Found> found(tasks);
    parallel_for(tasks, 0, [&](std::size_t t) { found[t] = task(t, tasks, structured); });
    Found best;
    for (const Found& one : found) {
      best.step = std::min(best.step, one.step);
      best.tried += one.tried;
      best.replayed += one.replayed;
    }
    best.structured = structured.size();
    return best;
  }

 private:
  static constexpr std::size_t kFamilies = 100'000;

  void replay(const Placement& placement, Found& found) const {
    found.step = std::min(found.step, replayer_.run(placement, Mode::kEvent).step.value);
    ++found.replayed;
  }

  void look_at(place::Evaluator& evaluator, const Placement& placement, Found& found) const {
    evaluator.assign(placement);
    ++found.tried;
    if (evaluator.floor() < to_beat_) replay(placement, found);
  }

  Found task(std::size_t t, std::size_t tasks, const std::vector<place::Candidate>& structured) const {
    Found found;
    place::Evaluator evaluator(problem_);
    for (std::size_t i = t; i < structured.size(); i += tasks)
      look_at(evaluator, structured[i].placement, found);
    Random random(0xabcdef + t);
    Placement placement = topology::row_major(problem_.model().slice());
    for (std::size_t i = 0; i < settings_.sample / tasks; ++i) {
      random.shuffle(placement);
      look_at(evaluator, placement, found);
    }
    const place::Climb climbed =
        place::climb(evaluator, placement, {0x1234567 + t, settings_.evaluations / 10, 0}, Cancel());
    replay(climbed.placement, found);
    for (const place::Optimum& one : climbed.optima) replay(one.placement, found);
    found.tried += static_cast<std::size_t>(climbed.evaluations);
    return found;
  }

  const simulate::Replayer& replayer_;
  const place::Problem& problem_;
  const place::LogicalMesh& mesh_;
  double to_beat_;
  const Settings& settings_;
};

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

bool study(const std::string& slice_name, const std::string& mesh_text, const std::string& path,
           const Settings& settings) {
  const topology::Slice slice = topology::Slice::parse(slice_name);
  const network::Profile profile = network::Profile::builtin(slice.kind());
  const simulate::Workload workload = simulate::lower(ir::read_program(read_text(path), path), profile);
  const place::LogicalMesh mesh = parse_mesh(mesh_text);
  place::Options options;
  options.evaluations = settings.evaluations;
  options.assumptions = {network::Assumptions{}};
  const place::Ranking ranking = place::rank(workload, slice, profile, mesh, options, Cancel());
  const network::Model model(slice, profile);
  const simulate::Replayer replayer(workload, model);
  const place::Problem problem(workload, model);
  const bool all = slice.chips() <= 8;
  const double best = ranking.best.step.value;
  const Found found =
      all ? every_order(replayer, model) : Sampler(replayer, problem, mesh, best, settings).run();
  const bool equal = best <= found.step * (1 + 1e-9);
  const bool good = equal || (!all && best <= found.step * (1 + kTie));
  const std::string how =
      all ? fmt::format("all {} orders replayed", found.tried)
          : fmt::format("{} structured, {} random, {} climbs: {} looked at, {} replayed", found.structured,
                        settings.sample, settings.starts, found.tried, found.replayed);
  const std::string lock_step = ranking.lock_step
                                    ? fmt::format(", in lock-step {:.2f} %{}", 100 * ranking.lock_step->gap,
                                                  ranking.lock_step->exhaustive ? " exhaustive" : "")
                                    : "";
  fmt::print(
      "{:<10} {:<8} {:<38} worst/best {:6.3f}  rank {:>12.3f}  referee {:>12.3f} ({})  bound {:>12.3f}  "
      "gap {:5.2f} %{}  {}\n",
      slice_name, mesh_text, path.substr(path.rfind('/') + 1), ranking.worst.step.value / best, best,
      found.step, how, ranking.lower_bound.value, 100 * ranking.gap, lock_step,
      equal  ? "ok"
      : good ? fmt::format("tie: {:.4f} % faster", 100 * (best / found.step - 1))
             : "BEATEN");
  std::fflush(stdout);
  return good;
}

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  Settings settings;
  while (arguments.size() >= 2 && arguments[0].starts_with("--")) {
    const auto value = std::stoll(arguments[1]);
    if (arguments[0] == "--sample") settings.sample = static_cast<std::size_t>(value);
    if (arguments[0] == "--starts") settings.starts = static_cast<std::size_t>(std::max(1LL, value));
    if (arguments[0] == "--evaluations") settings.evaluations = value;
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  if (arguments.empty() || arguments.size() % 3 != 0) {
    fmt::print(stderr,
               "usage: place_study [--sample N] [--starts N] [--evaluations N] SLICE MESH FILE.hlo ...\n");
    return 2;
  }
  bool good = true;
  for (std::size_t i = 0; i < arguments.size(); i += 3) {
    good &= study(arguments[i], arguments[i + 1], arguments[i + 2], settings);
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace aoizora

int main(int argc, char** argv) {
  try {
    return aoizora::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
