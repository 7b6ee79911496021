#include "choose.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "aoizora/base/random.h"
#include "aoizora/place/automorphisms.h"
#include "aoizora/place/evaluator.h"
#include "aoizora/place/search.h"
#include "predict.h"

namespace aoizora::testbed {
namespace {

using topology::Placement;

constexpr std::size_t kCounted = 8;  // chips: 8! orders are gone through
constexpr std::size_t kPool = 120;   // random orders that are predicted, to spread over
constexpr std::size_t kBest = 4;     // predicted best, distinct up to symmetry

class Chooser {
 public:
  Chooser(const Program& program, const network::Model& model, std::uint64_t seed)
      : program_(program),
        model_(model),
        problem_(program.workload, model),
        evaluator_(problem_),
        maps_(place::symmetry_maps(model)),
        predictor_(program, model),
        random_(seed) {}

  /// One of each class of 8! orders, or nothing when there are too many.
  Choices all(std::size_t most) {
    Choices result;
    const auto chips = static_cast<std::int32_t>(model_.slice().chips());
    Placement placement;
    for (std::int32_t c = 0; c < chips; ++c) placement.emplace_back(c);
    std::map<std::uint64_t, Placement> classes;
    do {
      const bool first = std::all_of(maps_.begin(), maps_.end(), [&](const std::vector<Chip>& map) {
        return map[placement[0].at()] >= placement[0];
      });
      if (first) classes.emplace(place::least_signature(evaluator_, placement, maps_), placement);
    } while (std::next_permutation(placement.begin(), placement.end()));
    result.classes = static_cast<std::int64_t>(classes.size());
    if (classes.size() > most) return result;
    result.exhaustive = true;
    for (const auto& [signature, one] : classes) {
      seen_.emplace(signature, result.choices.size());
      result.choices.push_back({one, "class"});
    }
    add(topology::row_major(model_.slice()), "row_major", result);
    const place::DeviceMesh today = place::create_device_mesh(model_.slice(), program_.mesh);
    if (today.placement) add(*today.placement, "default", result);
    return result;
  }

  void sample(std::size_t most, Choices& result) {
    place::Options options;
    options.evaluations = 20'000;
    options.replayed = 64;
    options.workers = 1;
    options.exact_nodes = 0;
    options.assumptions = {network::Assumptions{}};
    const place::Ranking ranking =
        place::rank(program_.workload, model_.slice(), model_.profile(), program_.mesh, options, Cancel());
    add(ranking.best.placement, "best", result);
    for (const place::Scored& one : ranking.top) {
      if (result.choices.size() < kBest) add(one.placement, "best", result);
    }
    add(ranking.worst.placement, "worst", result);
    for (const place::Scored& one : ranking.baselines) {
      if (!one.placement.empty())
        add(one.placement, one.name == "row_major" ? "row_major" : "default", result);
    }
    const std::size_t rest = most - std::min(most, result.choices.size());
    spread(rest - rest / 2, result);
    // A symmetric program may have fewer classes than were asked for.
    for (std::size_t i = 0; i < 20 * most && result.choices.size() < most; ++i) {
      add(random_order(), "random", result);
    }
  }

 private:
  Placement random_order() {
    Placement placement = topology::row_major(model_.slice());
    random_.shuffle(placement);
    return placement;
  }

  /// A placement of a class that is chosen already adds its reason to that one.
  void add(const Placement& placement, const std::string& why, Choices& result) {
    const auto [entry, fresh] =
        seen_.emplace(place::least_signature(evaluator_, placement, maps_), result.choices.size());
    if (fresh) {
      result.choices.push_back({placement, why});
    } else if (std::string& known = result.choices[entry->second].why; known.find(why) == std::string::npos) {
      known += "+" + why;
    }
  }

  /// Evenly over the predicted times of random orders and of their neighbours on the way down.
  void spread(std::size_t count, Choices& result) {
    std::vector<std::pair<double, Placement>> pool;
    for (std::size_t i = 0; i < kPool; ++i) {
      Placement placement = random_order();
      double time = predictor_.predict(placement).event;
      pool.emplace_back(time, placement);
      if (i % 16 != 0) continue;
      for (std::size_t step = 0; step < 30; ++step) {  // a walk towards good orders, all of which are kept
        const auto chips = static_cast<std::uint32_t>(placement.size());
        Placement other = placement;
        std::swap(other[random_.below(chips)], other[random_.below(chips)]);
        const double then = predictor_.predict(other).event;
        if (then > time) continue;
        time = then;
        placement = other;
        pool.emplace_back(time, placement);
      }
    }
    std::sort(pool.begin(), pool.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const double low = pool.front().first;
    const double high = pool.back().first;
    for (std::size_t i = 0; i < count; ++i) {
      const double want = low + (high - low) * (static_cast<double>(i) + 0.5) / static_cast<double>(count);
      const auto nearest = std::min_element(pool.begin(), pool.end(), [&](const auto& a, const auto& b) {
        return std::abs(a.first - want) < std::abs(b.first - want);
      });
      add(nearest->second, "spread", result);
    }
  }

  const Program& program_;
  const network::Model& model_;
  place::Problem problem_;
  place::Evaluator evaluator_;
  std::vector<std::vector<Chip>> maps_;
  Predictor predictor_;
  Random random_;
  std::map<std::uint64_t, std::size_t> seen_;  // class -> choice
};

}  // namespace

Choices choose(const Program& program, const network::Model& model, std::size_t most, std::size_t exhaustive,
               std::uint64_t seed) {
  Choices result;
  Chooser chooser(program, model, seed);
  if (model.slice().chips() <= kCounted) result = chooser.all(exhaustive);
  if (!result.exhaustive) chooser.sample(most, result);
  return result;
}

}  // namespace aoizora::testbed
