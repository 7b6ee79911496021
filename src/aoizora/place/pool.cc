#include "aoizora/place/pool.h"

#include <algorithm>
#include <cmath>

#include "aoizora/base/parallel.h"
#include "aoizora/base/random.h"
#include "aoizora/place/local_search.h"

namespace aoizora::place {
namespace {

/// Climbs of one round run side by side; rounds repeat while budget is left.
constexpr std::size_t kTasks = 16;
/// Random placements that are scored for comparison, and to see how bad an order can be.
constexpr std::size_t kRandom = 64;
/// Evaluations of one climb at most, on 16 chips; fewer where each costs more.
constexpr std::int64_t kLongestClimb = 200'000;
/// A quarter of the budget is always spent; then rounds that find nothing better end the search.
constexpr int kStaleRounds = 2;
constexpr std::int64_t kRounds = 4;  // in a budget, at least
/// Scored before a cancel is heeded: there must be an answer.
constexpr std::size_t kAlwaysScored = 3;

bool before(const Entry& a, const Entry& b) {
  if (a.score != b.score) return a.score < b.score;
  return a.volume < b.volume;
}

topology::Placement random_placement(std::size_t positions, std::uint64_t seed) {
  topology::Placement placement;
  for (std::size_t p = 0; p < positions; ++p) placement.emplace_back(static_cast<std::int32_t>(p));
  Random(seed).shuffle(placement);
  return placement;
}

Entry measured(Evaluator& evaluator, std::string name, const topology::Placement& placement) {
  evaluator.assign(placement);
  return {std::move(name), placement, evaluator.score(), evaluator.volume(), evaluator.signature()};
}

/// Sorted, one per signature (the first tried), the best `keep`; of equal score and volume an eighth of that
/// at most, or a plateau would leave no room for those just beside it, of which a replay may be faster.
void tidy(std::vector<Entry>& entries, std::size_t keep) {
  std::set<std::uint64_t> seen;
  std::erase_if(entries, [&](const Entry& entry) { return !seen.insert(entry.signature).second; });
  std::stable_sort(entries.begin(), entries.end(), before);
  Plateau plateau(std::max<std::size_t>(1, keep / kPlateaus));
  std::erase_if(entries, [&](const Entry& entry) { return plateau.full(entry); });
  if (entries.size() > keep) entries.resize(keep);
}

std::vector<Entry> score_all(const Problem& problem, const std::vector<Candidate>& candidates,
                             unsigned workers, const Cancel& cancel) {
  std::vector<Entry> entries(candidates.size());
  const std::size_t chunk = (candidates.size() + kTasks - 1) / kTasks;
  parallel_for(kTasks, workers, [&](std::size_t task) {
    Evaluator evaluator(problem);
    for (std::size_t i = task * chunk; i < std::min((task + 1) * chunk, candidates.size()); ++i) {
      if (i >= kAlwaysScored && cancel.requested()) continue;
      entries[i] = measured(evaluator, candidates[i].name, candidates[i].placement);
    }
  });
  std::erase_if(entries, [](const Entry& entry) { return entry.placement.empty(); });
  return entries;
}

}  // namespace

bool Plateau::full(const Entry& entry) {
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(a); };
  if (!near(entry.score, score_) || !near(entry.volume, volume_)) {
    score_ = entry.score;
    volume_ = entry.volume;
    met_ = 0;
  }
  return ++met_ > room_;
}

Pool fast_search(const Problem& problem, const LowerBound& bound, const std::vector<Candidate>& given,
                 std::int64_t evaluations, std::uint64_t seed, unsigned workers, std::size_t keep,
                 const Cancel& cancel, std::optional<std::chrono::steady_clock::time_point> until) {
  std::vector<Candidate> candidates = given;
  for (std::size_t i = 0; i < kRandom; ++i) {
    candidates.push_back({kRandomName, random_placement(problem.positions(), seed + i)});
  }
  Pool pool;
  pool.entries = score_all(problem, candidates, workers, cancel);
  pool.evaluated = static_cast<std::int64_t>(pool.entries.size());
  pool.worst = *std::max_element(pool.entries.begin(), pool.entries.end(), before);
  tidy(pool.entries, keep);

  std::uint64_t round = 0;
  int stale = 0;
  const auto longest = std::max<std::int64_t>(
      1000, kLongestClimb * 16 / static_cast<std::int64_t>(std::max<std::size_t>(16, problem.positions())));
  const auto over = [&] { return until && std::chrono::steady_clock::now() >= *until; };
  const auto found_all = [&] { return !until && stale >= kStaleRounds && pool.evaluated > evaluations / 4; };
  while (pool.evaluated < evaluations && !cancel.requested() && !over() && !found_all() &&
         pool.entries.front().score > bound.step() * (1 + 1e-9)) {
    const std::int64_t budget = std::clamp<std::int64_t>(
        (evaluations - pool.evaluated) / static_cast<std::int64_t>(kTasks), 1,
        std::min(longest,
                 std::max<std::int64_t>(1000, evaluations / kRounds / static_cast<std::int64_t>(kTasks))));
    std::vector<std::vector<Entry>> found(kTasks);
    std::vector<std::int64_t> used(kTasks, 0);
    // First the best, then others further down; half of the tasks start anywhere.
    const std::size_t known = pool.entries.size();
    parallel_for(kTasks, workers, [&](std::size_t task) {
      if (cancel.requested()) return;
      const std::uint64_t task_seed = seed ^ (0x9e3779b97f4a7c15ULL * (1 + round * kTasks + task));
      Evaluator evaluator(problem);
      const bool random = task % 2 == 1;
      const std::size_t from = (task / 2 + round * (kTasks / 2) * (round % 2)) % known;
      const topology::Placement start =
          random ? random_placement(problem.positions(), task_seed) : pool.entries[from].placement;
      const Climb climbed = climb(evaluator, start, {task_seed, budget, bound.step()}, cancel);
      found[task].push_back(measured(evaluator, kSearchedName, climbed.placement));
      for (const Optimum& one : climbed.optima) {
        found[task].push_back({kSearchedName, one.placement, one.score, one.volume, one.signature});
      }
      used[task] = climbed.evaluations;
    });
    for (std::size_t task = 0; task < kTasks; ++task) {
      pool.evaluated += used[task];
      for (Entry& entry : found[task]) pool.entries.push_back(std::move(entry));
    }
    const double before_round = pool.entries.front().score;
    tidy(pool.entries, keep);
    stale = pool.entries.front().score < before_round * (1 - 1e-9) ? 0 : stale + 1;
    ++round;
  }
  return pool;
}

}  // namespace aoizora::place
