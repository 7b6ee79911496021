#include "aoizora/place/exact.h"

#include <algorithm>
#include <limits>
#include <set>

#include "aoizora/place/automorphisms.h"

namespace aoizora::place {
namespace {

/// Link loads of the groups placed so far.
class Partial {
 public:
  Partial(const Problem& problem, const LowerBound& bound)
      : problem_(problem), bound_(bound), walk_(problem), links_(bound.links()), windows_(bound.windows()) {
    const std::size_t links = problem.model().capacities().size();
    for (const Structure& structure : problem.structures()) {
      costs_.emplace_back(problem.model(), structure);
      for (std::size_t c = 0; c < problem.components(); ++c) loads_.emplace_back(links, 0);
      missing_.emplace_back();
      for (const auto& group : structure.groups) missing_.back().push_back(group.size());
    }
  }

  void place(std::size_t position, const std::vector<std::int32_t>& chips) { change(position, chips, true); }
  void take_back(std::size_t position, const std::vector<std::int32_t>& chips) {
    change(position, chips, false);
  }

  /// Certified for every completion of the partial placement, µs: the largest of its components' floors.
  double floor() {
    double floor = 0;
    for (std::size_t c = 0; c < problem_.components(); ++c) {
      if (c == 0 || started_[c] > 0) floor = std::max(floor, component_floor(c));
    }
    return floor;
  }

 private:
  void change(std::size_t position, const std::vector<std::int32_t>& chips, bool add) {
    for (std::size_t s = 0; s < costs_.size(); ++s) {
      const Structure& structure = problem_.structures()[s];
      for (const std::int32_t g : structure.groups_of[position]) {
        std::size_t& missing = missing_[s][static_cast<std::size_t>(g)];
        if (!add) ++missing;
        if (missing == 1) {
          scratch_.clear();
          for (const std::int32_t p : structure.groups[static_cast<std::size_t>(g)]) {
            scratch_.push_back(chips[static_cast<std::size_t>(p)]);
          }
          const GroupCost cost = costs_[s].cost(costs_[s].find(scratch_));
          const std::size_t component = problem_.component_of_group(s, static_cast<std::size_t>(g));
          for (const GroupPhase& phase : costs_[s].phases(cost)) {
            for (const LinkLoad& on : costs_[s].loads(phase)) {
              load(s, component)[static_cast<std::size_t>(on.link)] += add ? on.load : -on.load;
            }
          }
          started_[component] += add ? 1 : -1;
        }
        if (add) --missing;
      }
    }
  }

  std::vector<double>& load(std::size_t structure, std::size_t component) {
    return loads_[structure * problem_.components() + component];
  }

  double component_floor(std::size_t component) {
    for (std::size_t s = 0; s < costs_.size(); ++s) {
      const std::vector<double>& loads = load(s, component);
      busiest_[s] = *std::max_element(loads.begin(), loads.end()) * costs_[s].micros_per_unit();
    }
    for (std::size_t t = 0; t < links_.size(); ++t) {
      const Transfer& transfer = problem_.transfers()[t];
      links_[t] = std::max(bound_.links()[t],
                           transfer.bytes * busiest_[static_cast<std::size_t>(transfer.structure)]);
    }
    for (std::size_t w = 0; w < windows_.size(); ++w) {
      windows_[w] = std::max(bound_.windows()[w], window_load(w, component));
    }
    return walk_.run(bound_.alone(), links_, windows_);
  }

  double window_load(std::size_t window, std::size_t component) {
    sum_.assign(problem_.model().capacities().size(), 0.0);
    for (const std::int32_t t : problem_.windows()[window].transfers) {
      const Transfer& transfer = problem_.transfers()[static_cast<std::size_t>(t)];
      const auto s = static_cast<std::size_t>(transfer.structure);
      const double weight = transfer.bytes * costs_[s].micros_per_unit();
      const std::vector<double>& loads = load(s, component);
      for (std::size_t l = 0; l < sum_.size(); ++l) sum_[l] += weight * loads[l];
    }
    return *std::max_element(sum_.begin(), sum_.end());
  }

  const Problem& problem_;
  const LowerBound& bound_;
  FloorWalk walk_;
  std::vector<GroupCosts> costs_;
  std::vector<std::vector<double>> loads_;         // per structure and component, then link; all phases
  std::vector<std::vector<std::size_t>> missing_;  // per structure and group: members not placed yet
  std::vector<double> links_, windows_, sum_;
  std::vector<int> started_ = std::vector<int>(problem_.components(), 0);  // groups placed
  std::vector<double> busiest_ = std::vector<double>(problem_.structures().size());
  std::vector<std::int32_t> scratch_;
};

class Search {
 public:
  Search(const Problem& problem, const LogicalMesh& mesh, const LowerBound& bound,
         const ExactOptions& options, const Cancel& cancel)
      : mesh_(mesh),
        options_(options),
        cancel_(cancel),
        partial_(problem, bound),
        evaluator_(problem),
        chips_(problem.positions(), -1),
        free_(problem.positions(), true),
        root_(bound.step()),
        exchangeable_(exchangeable_axes(problem, mesh)) {
    for (std::size_t a = 0; a < mesh.shape.size(); ++a) {
      if (mesh.shape[a] > 1 && exchangeable_[a]) exchanges_ = true;
    }
    symmetries_ = symmetry_maps(problem.model());
    result_.lower_bound = std::numeric_limits<double>::infinity();
    result_.complete = true;
  }

  ExactResult run() {
    std::vector<std::size_t> all(symmetries_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    descend(0, all, root_);
    std::stable_sort(result_.survivors.begin(), result_.survivors.end(),
                     [](const Survivor& a, const Survivor& b) { return a.score < b.score; });
    return std::move(result_);
  }

 private:
  /// What is cut off or left open is no faster than `floor`.
  void leave(double floor) { result_.lower_bound = std::min(result_.lower_bound, floor); }

  void descend(std::size_t position, const std::vector<std::size_t>& stabiliser, double floor) {
    if (position == chips_.size()) return leaf(floor);
    for (std::size_t c = 0; c < free_.size(); ++c) {
      const auto chip = static_cast<std::int32_t>(c);
      if (!free_[c] || !first_of_its_kind(position, chip, stabiliser)) continue;
      if (!result_.complete) return leave(floor);  // out of budget: the rest of this node stays open
      free_[c] = false;
      chips_[position] = chip;
      partial_.place(position, chips_);
      const double below = std::max(floor, partial_.floor());
      if (++result_.visited >= options_.nodes || cancel_.requested()) result_.complete = false;
      if (below >= options_.cutoff) {
        leave(below);
      } else {
        descend(position + 1, remaining(chip, stabiliser), below);
      }
      partial_.take_back(position, chips_);
      chips_[position] = -1;
      free_[c] = true;
    }
  }

  /// Symmetries of the slice that fix every chip chosen so far and this one.
  std::vector<std::size_t> remaining(std::int32_t chip, const std::vector<std::size_t>& stabiliser) const {
    std::vector<std::size_t> kept;
    for (const std::size_t s : stabiliser) {
      if (symmetries_[s][static_cast<std::size_t>(chip)].value == chip) kept.push_back(s);
    }
    return kept;
  }

  /// Where exchanges exist, they alone are used: a placement's slabs can be sorted so that the lowest chip of
  /// the block of all exchangeable axes is at its origin and chips rise along each of these axes from there
  /// (the two kinds of symmetry cannot simply be combined). Otherwise the chip must be the lowest of its
  /// orbit under the symmetries left.
  bool first_of_its_kind(std::size_t position, std::int32_t chip,
                         const std::vector<std::size_t>& stabiliser) const {
    if (!exchanges_) {
      return std::all_of(stabiliser.begin(), stabiliser.end(), [&](std::size_t s) {
        return symmetries_[s][static_cast<std::size_t>(chip)].value >= chip;
      });
    }
    std::size_t stride = 1, moved = 0, previous = 0;
    std::size_t rest = position;
    bool others_zero = true;
    for (std::size_t a = mesh_.shape.size(); a-- > 0;) {
      const auto size = static_cast<std::size_t>(mesh_.shape[a]);
      const std::size_t at = rest % size;
      rest /= size;
      if (at > 0) {
        if (!exchangeable_[a]) others_zero = false;
        ++moved;
        previous = position - stride;
      }
      stride *= size;
    }
    if (!others_zero || moved == 0) return true;
    if (moved == 1) return chip > chips_[previous];  // on a line from the origin: rising
    return chip > chips_[0];                         // inside the block: above its origin
  }

  void leaf(double floor) {
    evaluator_.assign(placement());
    floor = std::max(floor, evaluator_.floor());
    leave(floor);
    if (floor >= options_.cutoff) return;
    if (!seen_.insert(least_signature(evaluator_, placement(), symmetries_)).second) return;
    if (result_.survivors.size() >= options_.survivors) {
      result_.complete = false;
      return;
    }
    result_.survivors.push_back({placement(), floor, evaluator_.score()});
  }

  topology::Placement placement() const {
    topology::Placement placement;
    for (const std::int32_t chip : chips_) placement.emplace_back(chip);
    return placement;
  }

  const LogicalMesh& mesh_;
  const ExactOptions options_;
  const Cancel& cancel_;
  Partial partial_;
  Evaluator evaluator_;
  std::vector<std::int32_t> chips_;
  std::vector<bool> free_;
  double root_;  // µs: the bound before anything is placed
  std::vector<bool> exchangeable_;
  bool exchanges_ = false;
  std::vector<std::vector<Chip>> symmetries_;
  std::set<std::uint64_t> seen_;
  ExactResult result_;
};

}  // namespace

ExactResult branch_and_bound(const Problem& problem, const LogicalMesh& mesh, const LowerBound& bound,
                             const ExactOptions& options, const Cancel& cancel) {
  return Search(problem, mesh, bound, options, cancel).run();
}

}  // namespace aoizora::place
