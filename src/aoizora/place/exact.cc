#include "aoizora/place/exact.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <set>

#include "aoizora/place/automorphisms.h"
#include "aoizora/place/partial.h"

namespace aoizora::place {
namespace {

/// A partial placement that is still open: its parent's, and one position more.
struct Node {
  double floor = 0;
  std::int32_t parent = -1;
  std::int32_t chip = -1;
  std::int32_t depth = 0;  // positions placed
};

class Search {
 public:
  Search(const Problem& problem, const LogicalMesh& mesh, const LowerBound& bound,
         const ExactOptions& options, const Cancel& cancel)
      : mesh_(mesh),
        options_(options),
        cancel_(cancel),
        partial_(problem, bound, options.lock_step ? Partial::Of::kLockStep : Partial::Of::kReplay),
        evaluator_(problem),
        positions_(problem.positions()),
        exchangeable_(exchangeable_axes(problem, mesh)) {
    for (std::size_t a = 0; a < mesh.shape.size(); ++a) {
      if (mesh.shape[a] > 1 && exchangeable_[a]) exchanges_ = true;
    }
    symmetries_ = symmetry_maps(problem.model());
    stabilisers_.resize(positions_ + 1);
    for (std::size_t i = 0; i < symmetries_.size(); ++i) stabilisers_[0].push_back(i);
    nodes_.push_back({bound.step(), -1, -1, 0});
    open_.push(0);
    result_.lower_bound = std::numeric_limits<double>::infinity();
    result_.complete = true;
  }

  ExactResult run() {
    while (!open_.empty() && result_.complete) {
      const std::size_t node = open_.top();
      open_.pop();
      go_to(node);
      expand(node);
    }
    if (!open_.empty()) leave(nodes_[open_.top()].floor);
    std::stable_sort(result_.survivors.begin(), result_.survivors.end(),
                     [](const Survivor& a, const Survivor& b) { return a.score < b.score; });
    return std::move(result_);
  }

 private:
  /// What is cut off or left open is no faster than `floor`.
  void leave(double floor) { result_.lower_bound = std::min(result_.lower_bound, floor); }

  std::size_t depth() const { return path_.size(); }

  /// Takes back and places until the partial placement is that of `node`.
  void go_to(std::size_t node) {
    std::vector<std::size_t> way;
    for (std::size_t at = node; nodes_[at].parent >= 0; at = static_cast<std::size_t>(nodes_[at].parent)) {
      way.push_back(at);
    }
    std::reverse(way.begin(), way.end());
    std::size_t same = 0;
    while (same < way.size() && same < path_.size() && way[same] == path_[same]) ++same;
    while (path_.size() > same) {
      path_.pop_back();
      partial_.take_back(path_.size());
    }
    for (; same < way.size(); ++same) {
      const std::int32_t chip = nodes_[way[same]].chip;
      partial_.place(same, chip);
      path_.push_back(way[same]);
      auto& kept = stabilisers_[path_.size()];
      kept.clear();
      for (const std::size_t s : stabilisers_[same]) {
        if (symmetries_[s][static_cast<std::size_t>(chip)].value == chip) kept.push_back(s);
      }
    }
  }

  void expand(std::size_t node) {
    const std::size_t position = depth();
    const double floor = nodes_[node].floor;
    for (std::int32_t chip = 0; chip < static_cast<std::int32_t>(positions_); ++chip) {
      if (partial_.taken(chip) || !first_of_its_kind(position, chip)) continue;
      if (!result_.complete) return leave(floor);  // out of budget: the rest of this node stays open
      partial_.place(position, chip);
      const double below = std::max(floor, partial_.floor());
      if (++result_.visited >= options_.nodes || cancel_.requested()) result_.complete = false;
      if (below >= options_.cutoff) {
        leave(below);
      } else if (position + 1 == positions_) {
        leaf(below);
      } else {
        nodes_.push_back(
            {below, static_cast<std::int32_t>(node), chip, static_cast<std::int32_t>(position) + 1});
        open_.push(nodes_.size() - 1);
      }
      partial_.take_back(position);
    }
  }

  /// Where exchanges exist, they alone are used: a placement's slabs can be sorted so that the lowest chip of
  /// the block of all exchangeable axes is at its origin and chips rise along each of these axes from there
  /// (the two kinds of symmetry cannot simply be combined). Otherwise the chip must be the lowest of its
  /// orbit under the symmetries left.
  bool first_of_its_kind(std::size_t position, std::int32_t chip) const {
    if (!exchanges_) {
      const auto& stabiliser = stabilisers_[position];
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
    if (moved == 1) return chip > partial_.chips()[previous];  // on a line from the origin: rising
    return chip > partial_.chips()[0];                         // inside the block: above its origin
  }

  void leaf(double floor) {
    const topology::Placement placement = this->placement();
    evaluator_.assign(placement);
    floor = std::max(floor, options_.lock_step ? evaluator_.score() : evaluator_.floor());
    leave(floor);
    if (floor >= options_.cutoff) return;
    if (!seen_.insert(least_signature(evaluator_, placement, symmetries_)).second) return;
    if (result_.survivors.size() >= options_.survivors) {
      result_.complete = false;
      return;
    }
    result_.survivors.push_back({placement, floor, evaluator_.score()});
  }

  topology::Placement placement() const {
    topology::Placement placement;
    for (const std::int32_t chip : partial_.chips()) placement.emplace_back(chip);
    return placement;
  }

  const LogicalMesh& mesh_;
  const ExactOptions options_;
  const Cancel& cancel_;
  Partial partial_;
  Evaluator evaluator_;
  std::size_t positions_;
  std::vector<bool> exchangeable_;
  bool exchanges_ = false;
  std::vector<std::vector<Chip>> symmetries_;
  std::vector<std::vector<std::size_t>> stabilisers_;  // per depth: what fixes every chip chosen so far
  std::vector<Node> nodes_;
  std::vector<std::size_t> path_;  // nodes from the root's child to where the partial placement is

  /// Least floor first, so that what is open bounds as well as it can when the budget ends; then the deepest,
  /// then the first made.
  struct Later {
    const std::vector<Node>* nodes;
    bool operator()(std::size_t a, std::size_t b) const {
      const Node& first = (*nodes)[a];
      const Node& second = (*nodes)[b];
      if (first.floor != second.floor) return first.floor > second.floor;
      if (first.depth != second.depth) return first.depth < second.depth;
      return a > b;
    }
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, Later> open_{Later{&nodes_}};
  std::set<std::uint64_t> seen_;
  ExactResult result_;
};

}  // namespace

ExactResult branch_and_bound(const Problem& problem, const LogicalMesh& mesh, const LowerBound& bound,
                             const ExactOptions& options, const Cancel& cancel) {
  return Search(problem, mesh, bound, options, cancel).run();
}

}  // namespace aoizora::place
