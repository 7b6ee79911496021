#include "aoizora/place/local_search.h"

#include <algorithm>
#include <array>
#include <set>

#include "aoizora/base/random.h"

namespace aoizora::place {
namespace {

/// Optima a climb keeps, and how far above its best.
constexpr std::size_t kOptima = 32;
constexpr double kClose = 1e-3;

/// Score first; of equal scores (to a rounding error of the sums) the one that moves fewer bytes.
bool better(double score, double volume, double than_score, double than_volume) {
  const double tolerance = 1e-9 * than_score;
  if (score < than_score - tolerance) return true;
  return score <= than_score + tolerance && volume < than_volume * (1 - 1e-9);
}

class Climber {
 public:
  Climber(Evaluator& evaluator, const ClimbOptions& options, const Cancel& cancel)
      : evaluator_(evaluator), options_(options), cancel_(cancel), random_(options.seed) {}

  Climb run(const topology::Placement& start) {
    evaluator_.assign(start);
    score_ = evaluator_.score();
    volume_ = evaluator_.volume();
    used_ = 1;
    best_ = {start, score_, volume_, 0, {}};
    const std::size_t n = evaluator_.problem().positions();
    for (std::size_t i = 1; i < n; ++i) order_.push_back(static_cast<std::uint32_t>(i));
    while (!stop()) {
      evaluator_.assign(evaluator_.placement());  // lets it drop costs it no longer needs
      descend();
      keep_best();
      if (stop() || n < 3) break;
      const double score = score_, volume = volume_;
      const topology::Placement before = evaluator_.placement();
      disturb();
      descend();
      keep_best();
      // Going on from an equal one walks along plateaus; from a worse one it would be a random walk.
      if (better(score, volume, score_, volume_)) {
        evaluator_.assign(before);
        score_ = score;
        volume_ = volume;
      }
    }
    best_.evaluations = used_;
    thin();
    return std::move(best_);
  }

 private:
  bool stop() {
    if (used_ >= options_.evaluations) return true;
    if (best_.score <= options_.good_enough * (1 + 1e-9)) return true;
    return cancel_.requested();
  }

  bool measure() {
    ++used_;
    const double score = evaluator_.score();
    const double volume = evaluator_.volume();
    if (!better(score, volume, score_, volume_)) return false;
    score_ = score;
    volume_ = volume;
    return true;
  }

  /// Remembers where a descent ended.
  void keep_best() {
    if (score_ <= best_.score * (1 + kClose) && met_.insert(evaluator_.signature()).second) {
      best_.optima.push_back({evaluator_.placement(), score_, volume_, evaluator_.signature()});
      if (best_.optima.size() > 2 * kOptima) thin();
    }
    if (!better(score_, volume_, best_.score, best_.volume)) return;
    best_.placement = evaluator_.placement();
    best_.score = score_;
    best_.volume = volume_;
  }

  void thin() {
    std::stable_sort(best_.optima.begin(), best_.optima.end(),
                     [](const Optimum& a, const Optimum& b) { return a.score < b.score; });
    if (best_.optima.size() > kOptima) best_.optima.resize(kOptima);
  }

  /// First improvement over all pairs, until a whole round brings none.
  void descend() {
    const std::size_t n = evaluator_.problem().positions();
    for (bool improved = true; improved;) {
      improved = false;
      random_.shuffle(order_);  // offsets 1..n-1
      const std::size_t shift = random_.below(static_cast<std::uint32_t>(n));
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t p = (i + shift) % n;
        for (const std::uint32_t offset : order_) {
          const std::size_t q = (p + offset) % n;
          if (q < p) continue;  // each pair once
          if (used_ >= options_.evaluations) return;
          if ((used_ & 127) == 0 && cancel_.requested()) return;
          evaluator_.swap(p, q);
          if (measure()) {
            improved = true;
            if (score_ <= options_.good_enough * (1 + 1e-9)) return;
          } else {
            evaluator_.swap(p, q);
          }
        }
      }
    }
  }

  void disturb() {
    const std::uint32_t kind = random_.below(4);
    if (kind == 0) {
      exchange_boxes();
    } else if (kind == 1) {
      exchange_groups();
    } else {
      const auto n = static_cast<std::uint32_t>(evaluator_.problem().positions());
      const std::uint32_t swaps = 2 + random_.below(3);
      for (std::uint32_t i = 0; i < swaps; ++i) evaluator_.swap(random_.below(n), random_.below(n));
    }
    ++used_;
    score_ = evaluator_.score();
    volume_ = evaluator_.volume();
  }

  /// Two disjoint boxes of the same shape trade what lies on them, chip by chip.
  void exchange_boxes() {
    const topology::Slice& slice = evaluator_.problem().model().slice();
    if (slice.is_graph()) return;
    std::array<std::int32_t, topology::kMaxDims> box{1, 1, 1}, first{}, second{};
    for (std::size_t d = 0; d < slice.dims().size(); ++d) {
      const auto size = static_cast<std::uint32_t>(slice.dims()[d]);
      box[d] = 1 + static_cast<std::int32_t>(random_.below(std::max(1U, size / 2)));
      const std::uint32_t room = size - static_cast<std::uint32_t>(box[d]) + 1;
      first[d] = static_cast<std::int32_t>(random_.below(room));
      second[d] = static_cast<std::int32_t>(random_.below(room));
    }
    bool disjoint = false;
    for (std::size_t d = 0; d < slice.dims().size(); ++d)
      disjoint |= std::abs(first[d] - second[d]) >= box[d];
    if (!disjoint) return;
    std::vector<std::size_t> at(evaluator_.chips().size());
    for (std::size_t p = 0; p < at.size(); ++p) at[static_cast<std::size_t>(evaluator_.chips()[p])] = p;
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(slice.chips()); ++c) {
      topology::Coordinates to = slice.coordinates(Chip(c));
      bool inside = true;
      for (std::size_t d = 0; d < slice.dims().size(); ++d) {
        inside &= to[d] >= first[d] && to[d] < first[d] + box[d];
        to[d] += second[d] - first[d];
      }
      if (inside) evaluator_.swap(at[static_cast<std::size_t>(c)], at[slice.at(to).at()]);
    }
  }

  /// Two groups of one structure trade chips, member by member.
  void exchange_groups() {
    const auto& structures = evaluator_.problem().structures();
    if (structures.empty()) return;
    const auto& groups = structures[random_.below(static_cast<std::uint32_t>(structures.size()))].groups;
    if (groups.size() < 2) return;
    const auto& a = groups[random_.below(static_cast<std::uint32_t>(groups.size()))];
    const auto& b = groups[random_.below(static_cast<std::uint32_t>(groups.size()))];
    // Half of the members: exchanging all of them is often a symmetry.
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (random_.below(2) == 0) {
        evaluator_.swap(static_cast<std::size_t>(a[i]), static_cast<std::size_t>(b[i]));
      }
    }
  }

  Evaluator& evaluator_;
  const ClimbOptions options_;
  const Cancel& cancel_;
  Random random_;
  std::vector<std::uint32_t> order_;
  double score_ = 0, volume_ = 0;
  std::int64_t used_ = 0;
  std::set<std::uint64_t> met_;
  Climb best_;
};

}  // namespace

Climb climb(Evaluator& evaluator, const topology::Placement& start, const ClimbOptions& options,
            const Cancel& cancel) {
  return Climber(evaluator, options, cancel).run(start);
}

}  // namespace aoizora::place
