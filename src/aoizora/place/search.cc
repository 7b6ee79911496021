#include "aoizora/place/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>

#include "aoizora/base/error.h"
#include "aoizora/base/parallel.h"
#include "aoizora/place/automorphisms.h"
#include "aoizora/place/baselines.h"
#include "aoizora/place/exact.h"
#include "aoizora/place/pool.h"
#include "aoizora/place/shapes.h"

namespace aoizora::place {
namespace {

using network::Assumptions;
using simulate::Mode;
using topology::Placement;
using topology::Slice;

/// A slice of 8 chips or fewer is always searched to the end.
constexpr std::size_t kAlwaysExact = 8;
constexpr std::int64_t kAlwaysExactNodes = 5'000'000;
/// Placements that are compared under all assumptions.
constexpr std::size_t kFinalists = 16;
/// Placements kept for each that is replayed: images under symmetries are told apart only then.
constexpr std::size_t kPerReplay = 4;
/// How far above the best, by the fast bound, a neighbour may be and still be replayed.
constexpr double kNear = 1e-3;
/// A certified gap that asks for a second look, and what that look calls faster.
constexpr double kLargeGap = 2e-3;
constexpr double kFaster = 1e-4;
/// A gain below this part of the step is none: op times are estimates, too.
constexpr double kLeastGain = 1e-3;

/// Everything that depends on one set of assumptions.
struct Study {
  Study(const simulate::Workload& workload, const Slice& slice, const network::Profile& profile,
        const Assumptions& assumptions)
      : model(slice, profile, assumptions),
        problem(workload, model),
        bound(problem),
        replayer(workload, model) {}

  network::Model model;
  Problem problem;
  LowerBound bound;
  simulate::Replayer replayer;
};

Scored replay(const Study& study, std::string name, const Placement& placement, double bound) {
  const simulate::StepTime time = study.replayer.run(placement, Mode::kEvent);
  return {std::move(name), placement, time.step, "", time.exposed_comm, Micros(bound)};
}

/// Replays all; those that a cancel leaves out are dropped, but never the first `always`.
std::vector<Scored> replay_all(const Study& study, const std::vector<Entry>& entries, unsigned workers,
                               std::size_t always, const Cancel& cancel) {
  std::vector<Scored> scored(entries.size());
  parallel_for(entries.size(), workers, [&](std::size_t i) {
    if (i >= always && cancel.requested()) return;
    scored[i] = replay(study, entries[i].name, entries[i].placement, entries[i].score);
  });
  std::erase_if(scored, [](const Scored& one) { return one.placement.empty(); });
  return scored;
}

/// Fastest first; equal times in the order given (fast score, then as tried).
void sort_by_step(std::vector<Scored>& scored) {
  std::stable_sort(scored.begin(), scored.end(),
                   [](const Scored& a, const Scored& b) { return a.step < b.step; });
}

/// The profile states its error as a part of the time of collectives; compute is the same for all placements.
/// So a difference says something only when it is more than that part of the waiting it is a difference of.
bool ties_with(const Scored& slower, Micros best, double stated_error) {
  return slower.step.value - best.value <= stated_error * slower.exposed.value + kLeastGain * best.value;
}

std::size_t distance(const Placement& a, const Placement& b) {
  std::size_t different = 0;
  for (std::size_t p = 0; p < a.size(); ++p) different += a[p] == b[p] ? 0U : 1U;
  return different;
}

class Ranker {
 public:
  Ranker(const simulate::Workload& workload, const Slice& slice, const network::Profile& profile,
         const LogicalMesh& mesh, const Options& options, const Cancel& cancel)
      : workload_(workload),
        slice_(slice),
        profile_(profile),
        mesh_(mesh),
        options_(options),
        cancel_(cancel) {
    assumptions_ = options.assumptions.empty() ? all_assumptions() : options.assumptions;
    check();
  }

  Ranking run() {
    main_ = std::make_unique<Study>(workload_, slice_, profile_, assumptions_.front());
    name_baselines();
    const auto now = std::chrono::steady_clock::now();
    if (options_.search_seconds > 0) {
      until_ = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(options_.search_seconds));
    }
    // A replay of 16 chips takes about a millisecond, of 256 some thirty.
    replayed_ = std::max<std::size_t>(1, slice_.chips() <= 64 ? options_.replayed : options_.replayed / 4);
    // Scoring a placement from nothing costs about the square of the chips.
    const std::size_t room =
        slice_.chips() <= 64 ? options_.families : std::max<std::size_t>(200, options_.families / 8);
    structured_ = families(slice_, mesh_, room);
    structured_.insert(structured_.begin(), given_.begin(), given_.end());
    Pool pool = search(*main_, options_.evaluations);
    keep_the_best_structured(pool);
    ranking_.evaluated = pool.evaluated;
    replay_top(pool);
    replay_baselines();
    polish();
    prove();
    finish_top();
    compare_assumptions();
    conclude();
    return std::move(ranking_);
  }

 private:
  void check() const {
    if (workload_.partitions != static_cast<std::int64_t>(slice_.chips())) {
      user_error("the program runs on {} devices but {} has {} chips; give the slice it was compiled for",
                 workload_.partitions, slice_.name(), slice_.chips());
    }
    if (mesh_size(mesh_) != static_cast<std::int64_t>(slice_.chips())) {
      user_error("mesh {} has {} positions but {} has {} chips; give --mesh sizes whose product is {}",
                 mesh_text(mesh_), mesh_size(mesh_), slice_.name(), slice_.chips(), slice_.chips());
    }
  }

  void name_baselines() {
    const DeviceMesh made = create_device_mesh(slice_, mesh_);
    const Placement split = default_split(slice_, mesh_);
    default_ = made.placement ? *made.placement : split;
    if (made.placement) given_.push_back({"create_device_mesh", *made.placement});
    given_.push_back({"row_major", topology::row_major(slice_)});
    given_.push_back({"default_split", split});
    if (!made.placement) refusal_ = made.refusal;
  }

  Pool search(const Study& study, std::int64_t evaluations) {
    return fast_search(study.problem, study.bound, structured_, evaluations, options_.seed, options_.workers,
                       kPerReplay * replayed_, cancel_, until_);
  }

  /// The best `replayed_` that no symmetry of the slice makes equal; on large slices only equal ones go.
  std::vector<Entry> distinct(const Study& study, const Pool& pool) const {
    const auto symmetries =
        slice_.chips() <= 64 ? symmetry_maps(study.model) : std::vector<std::vector<Chip>>();
    Evaluator evaluator(study.problem);
    std::set<std::uint64_t> seen;
    std::vector<Entry> entries;
    Plateau plateau(std::max<std::size_t>(1, replayed_ / kPlateaus));
    for (const Entry& entry : pool.entries) {
      if (entries.size() >= replayed_) break;
      if (!seen.insert(least_signature(evaluator, entry.placement, symmetries)).second) continue;
      if (!plateau.full(entry)) entries.push_back(entry);
    }
    return entries;
  }

  /// Under other assumptions only what was good under the first, and the baselines, are starts.
  void keep_the_best_structured(const Pool& pool) {
    structured_ = given_;
    for (const Entry& entry : distinct(*main_, pool)) structured_.push_back({entry.name, entry.placement});
  }

  void replay_top(const Pool& pool) {
    ranking_.top = replay_all(*main_, distinct(*main_, pool), options_.workers, 1, cancel_);
    ranking_.worst = replay(*main_, pool.worst.name, pool.worst.placement, pool.worst.score);
    ranking_.replayed = static_cast<std::int64_t>(ranking_.top.size()) + 1;
  }

  /// Step two looks around: swaps of two positions of the fastest, judged by replay, until none helps or as
  /// half as many replays as in step one are spent. The fast bound does not see what devices that drift apart
  /// gain or lose; this does.
  void polish() {
    sort_by_step(ranking_.top);
    Scored best = ranking_.top.front();
    Evaluator evaluator(main_->problem);
    const std::size_t n = slice_.chips();
    auto left = static_cast<std::int64_t>(replayed_ / 2);
    for (bool improved = true; improved && left > 0;) {
      improved = false;
      evaluator.assign(best.placement);
      const double now = evaluator.score();
      std::vector<Entry> near;
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t q = p + 1; q < n; ++q) {
          if (cancel_.requested()) return;
          evaluator.swap(p, q);
          ++ranking_.evaluated;
          // Only where the fast bound is no worse than by what it may be off.
          if (const double score = evaluator.score(); score <= now * (1 + kNear)) {
            near.push_back(
                {kSearchedName, evaluator.placement(), score, evaluator.volume(), evaluator.signature()});
          }
          evaluator.swap(p, q);
        }
      }
      std::stable_sort(near.begin(), near.end(),
                       [](const Entry& a, const Entry& b) { return a.score < b.score; });
      if (near.size() > static_cast<std::size_t>(left)) near.resize(static_cast<std::size_t>(left));
      left -= static_cast<std::int64_t>(near.size());
      for (Scored& one : replay_all(*main_, near, options_.workers, 0, cancel_)) {
        ++ranking_.replayed;
        if (one.step.value < best.step.value * (1 - 1e-12)) {
          best = one;
          improved = true;
        }
        ranking_.top.push_back(std::move(one));
      }
    }
  }

  void replay_baselines() {
    Evaluator evaluator(main_->problem);
    if (!refusal_.empty()) ranking_.baselines.push_back({"create_device_mesh", {}, {}, refusal_, {}, {}});
    for (const Candidate& candidate : given_) {
      evaluator.assign(candidate.placement);
      ranking_.baselines.push_back(replay(*main_, candidate.name, candidate.placement, evaluator.score()));
      ranking_.top.push_back(ranking_.baselines.back());
      ++ranking_.replayed;
    }
    for (const Scored& baseline : ranking_.baselines) {
      if (!baseline.placement.empty() && baseline.step > ranking_.worst.step) ranking_.worst = baseline;
    }
  }

  /// The certified bound; on small slices the proof that nothing is faster.
  void prove() {
    sort_by_step(ranking_.top);
    const double best = ranking_.top.front().step.value;
    double bound = main_->bound.step();
    const bool small = slice_.chips() <= kAlwaysExact;
    if (best <= bound * (1 + 1e-9)) {
      ranking_.exact = true;
    } else if (small || (options_.exact_nodes > 0 && slice_.chips() <= 64)) {
      ExactOptions exact;
      exact.cutoff = best;
      exact.nodes = small ? kAlwaysExactNodes : options_.exact_nodes;
      ExactResult result = branch_and_bound(main_->problem, mesh_, main_->bound, exact, cancel_);
      ranking_.visited = result.visited;
      bound = std::max(bound, std::min(best, result.lower_bound));
      if (result.complete) {
        bound = replay_survivors(result, bound);
        ranking_.exact = !cancel_.requested();
      }
      if (ranking_.top.front().step.value > bound * (1 + kLargeGap)) check_in_lock_step();
    }
    // A bound above a replayed time would be a bug of ours in one of the two.
    AOIZORA_CHECK(bound <= ranking_.top.front().step.value * (1 + 1e-6), "bound {} above replay {}", bound,
                  ranking_.top.front().step.value);
    ranking_.lower_bound = Micros(std::min(bound, ranking_.top.front().step.value));
    for (const StructureFloor& floor : main_->bound.structures()) ranking_.bound_reasons.push_back(floor.why);
  }

  /// Replays what branch and bound could not rule out, in order of score, skipping what a faster replay has
  /// ruled out meanwhile. Returns the bound that is certified then.
  double replay_survivors(const ExactResult& result, double bound) {
    constexpr std::size_t kChunk = 32;
    double best = ranking_.top.front().step.value;
    for (std::size_t first = 0; first < result.survivors.size(); first += kChunk) {
      if (cancel_.requested()) return bound;
      std::vector<Entry> entries;
      for (std::size_t i = first; i < std::min(first + kChunk, result.survivors.size()); ++i) {
        const Survivor& survivor = result.survivors[i];
        if (survivor.floor < best)
          entries.push_back({kSearchedName, survivor.placement, survivor.score, 0, 0});
      }
      std::vector<Scored> scored = replay_all(*main_, entries, options_.workers, entries.size(), cancel_);
      ranking_.replayed += static_cast<std::int64_t>(scored.size());
      for (Scored& one : scored) {
        best = std::min(best, one.step.value);
        ranking_.top.push_back(std::move(one));
      }
    }
    sort_by_step(ranking_.top);
    return best;
  }

  /// Devices may drift apart and escape each other, which no bound on all replays can rule out. In lock-step
  /// they cannot, and there branch and bound gets further. What it finds is replayed.
  void check_in_lock_step() {
    Evaluator evaluator(main_->problem);
    double least = std::numeric_limits<double>::infinity();
    for (const Scored& one : ranking_.top) {
      evaluator.assign(one.placement);
      least = std::min(least, evaluator.score());
    }
    ExactOptions exact;
    exact.lock_step = true;
    exact.cutoff = least * (1 - kFaster);
    exact.nodes = options_.exact_nodes;
    ExactResult result = branch_and_bound(main_->problem, mesh_, main_->bound, exact, cancel_);
    ranking_.lock_step = {result.complete, std::max(0.0, least / result.lower_bound - 1), result.visited};
    if (result.survivors.size() > replayed_) result.survivors.resize(replayed_);
    replay_survivors(result, 0);
  }

  /// Distinct by what they cost on every group, best first, the wanted number.
  void finish_top() {
    sort_by_step(ranking_.top);
    Evaluator evaluator(main_->problem);
    std::set<std::uint64_t> seen;
    std::erase_if(ranking_.top, [&](const Scored& one) {
      evaluator.assign(one.placement);
      return !seen.insert(evaluator.signature()).second;
    });
    for (Scored& one : ranking_.top) name_by_shape(one);
    name_by_shape(ranking_.worst);
    ranking_.best = ranking_.top.front();
    for (const Scored& one : ranking_.top) {
      if (ties_with(one, ranking_.best.step, profile_.stated_error)) ranking_.ties.push_back(one);
    }
    ranking_.gap = ranking_.lower_bound.value > 0 ? ranking_.best.step / ranking_.lower_bound - 1 : 0;
  }

  /// Climbs and branch and bound know no names; the shapes of the axes tell more than how it was found.
  void name_by_shape(Scored& scored) const {
    if (scored.name != kSearchedName && scored.name != kRandomName) return;
    scored.name = fmt::format("{}: {}", scored.name, axis_shapes(slice_, mesh_, scored.placement));
  }

  /// Those to choose from: the closest to the default among the ties (a baseline that ties is among them),
  /// the fastest few, and later each assumption's winner.
  std::vector<Scored> finalists() const {
    std::vector<Scored> chosen = ranking_.ties;
    std::stable_sort(chosen.begin(), chosen.end(), [&](const Scored& a, const Scored& b) {
      return distance(a.placement, default_) < distance(b.placement, default_);
    });
    if (chosen.size() > kFinalists / 2) chosen.resize(kFinalists / 2);
    for (const Scored& one : ranking_.top) {
      if (chosen.size() < kFinalists) chosen.push_back(one);
    }
    for (const Scored& baseline : ranking_.baselines) {
      if (!baseline.placement.empty()) chosen.push_back(baseline);
    }
    // The default first, whatever is left out later.
    std::stable_partition(chosen.begin(), chosen.end(),
                          [&](const Scored& one) { return one.placement == default_; });
    std::set<Placement> seen;
    std::erase_if(chosen, [&](const Scored& one) { return !seen.insert(one.placement).second; });
    return chosen;
  }

  void compare_assumptions() {
    std::vector<Scored> candidates = finalists();
    if (cancel_.requested() && candidates.size() > 3) candidates.resize(3);  // time is up
    std::vector<std::unique_ptr<Study>> studies;
    std::vector<Scored> winners = {ranking_.best};
    for (std::size_t a = 1; a < assumptions_.size(); ++a) {
      studies.push_back(std::make_unique<Study>(workload_, slice_, profile_, assumptions_[a]));
      const Pool pool = search(*studies.back(), options_.evaluations / 8);
      ranking_.evaluated += pool.evaluated;
      std::vector<Entry> few = distinct(*studies.back(), pool);
      if (few.size() > kFinalists) few.resize(kFinalists);
      std::vector<Scored> scored = replay_all(*studies.back(), few, options_.workers, 1, cancel_);
      ranking_.replayed += static_cast<std::int64_t>(scored.size());
      sort_by_step(scored);
      name_by_shape(scored.front());
      winners.push_back(scored.front());
      candidates.push_back({scored.front().name, scored.front().placement, {}, "", {}, {}});
    }
    // table[a][c]: finalist c under assumption a.
    std::vector<std::vector<Scored>> table;
    for (std::size_t a = 0; a < assumptions_.size(); ++a) {
      const Study& study = a == 0 ? *main_ : *studies[a - 1];
      std::vector<Entry> entries;
      for (const Scored& one : candidates)
        entries.push_back({one.name, one.placement, one.bound.value, 0, 0});
      table.push_back(replay_all(study, entries, options_.workers, entries.size(), cancel_));
      ranking_.replayed += static_cast<std::int64_t>(entries.size());
      // A finalist may beat the winner of the short search under this assumption.
      for (const Scored& one : table.back()) {
        if (one.step < winners[a].step) winners[a] = one;
      }
    }
    choose(candidates, winners, table);
  }

  void choose(const std::vector<Scored>& candidates, const std::vector<Scored>& winners,
              const std::vector<std::vector<Scored>>& table) {
    struct Verdict {
      bool ties_everywhere = true;
      double regret = 0;
      std::size_t distance = 0;
    };
    std::vector<Verdict> verdicts;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      Verdict verdict;
      verdict.distance = distance(candidates[c].placement, default_);
      for (std::size_t a = 0; a < table.size(); ++a) {
        verdict.regret = std::max(verdict.regret, table[a][c].step / winners[a].step - 1);
        verdict.ties_everywhere &= ties_with(table[a][c], winners[a].step, profile_.stated_error);
      }
      verdicts.push_back(verdict);
    }
    // The default is left only for a gain that the model can tell under its own assumptions.
    const auto usual =
        static_cast<std::size_t>(std::find_if(candidates.begin(), candidates.end(),
                                              [&](const Scored& one) { return one.placement == default_; }) -
                                 candidates.begin());
    AOIZORA_CHECK(usual < candidates.size(), "the default is not among the finalists");
    const bool keep = ties_with(table[0][usual], winners[0].step, profile_.stated_error);
    std::size_t chosen = keep ? usual : 0;
    for (std::size_t c = 1; !keep && c < candidates.size(); ++c) {
      const Verdict& now = verdicts[chosen];
      const Verdict& then = verdicts[c];
      if (then.ties_everywhere != now.ties_everywhere) {
        if (then.ties_everywhere) chosen = c;
      } else if (then.ties_everywhere
                     ? std::pair(then.distance, then.regret) < std::pair(now.distance, now.regret)
                     : std::pair(then.regret, static_cast<double>(then.distance)) <
                           std::pair(now.regret, static_cast<double>(now.distance))) {
        chosen = c;
      }
    }
    ranking_.chosen = table[0][chosen];
    for (std::size_t a = 0; a < table.size(); ++a) {
      const Scored& under = table[a][chosen];
      ranking_.by_assumption.push_back({assumption_name(assumptions_[a]), winners[a], under.step,
                                        under.step / winners[a].step - 1, table[a][usual].step});
    }
    if (keep && !verdicts[chosen].ties_everywhere) {
      ranking_.notes.push_back(
          fmt::format("the default is kept, since nothing is faster by more than the model can tell; under "
                      "another assumption it is up to {:.2f} % slower than the winner there",
                      100 * verdicts[chosen].regret));
    } else if (!verdicts[chosen].ties_everywhere) {
      ranking_.notes.push_back(
          fmt::format("no placement ties with the winner under every assumption; the chosen one is at most "
                      "{:.2f} % slower than the winner of any",
                      100 * verdicts[chosen].regret));
    }
  }

  void conclude() {
    const auto baseline =
        std::find_if(ranking_.baselines.begin(), ranking_.baselines.end(),
                     [&](const Scored& one) { return !one.placement.empty() && one.placement == default_; });
    AOIZORA_CHECK(baseline != ranking_.baselines.end(), "the default is not among the baselines");
    ranking_.margin = baseline->step / ranking_.chosen.step - 1;
    ranking_.tie = ties_with(*baseline, ranking_.best.step, profile_.stated_error);
    if (ranking_.tie) {
      ranking_.notes.push_back(
          fmt::format("{} is within the model's stated error ({:.0f} % of the waiting for collectives) of "
                      "the best: a tie",
                      baseline->name, 100 * profile_.stated_error));
    }
    if (cancel_.requested()) {
      ranking_.notes.emplace_back("stopped before the search was over: the best so far, with its gap");
    }
  }

  const simulate::Workload& workload_;
  const Slice& slice_;
  const network::Profile& profile_;
  const LogicalMesh& mesh_;
  const Options& options_;
  const Cancel& cancel_;
  std::vector<Assumptions> assumptions_;
  std::unique_ptr<Study> main_;
  std::vector<Candidate> given_;
  std::vector<Candidate> structured_;
  Placement default_;
  std::string refusal_;
  std::size_t replayed_ = 1;
  std::optional<std::chrono::steady_clock::time_point> until_;
  Ranking ranking_;
};

}  // namespace

Ranking rank(const simulate::Workload& workload, const Slice& slice, const network::Profile& profile,
             const LogicalMesh& mesh, const Options& options, const Cancel& cancel) {
  return Ranker(workload, slice, profile, mesh, options, cancel).run();
}

}  // namespace aoizora::place
