#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "aoizora/place/group_costs.h"
#include "aoizora/place/lower_bound.h"
#include "aoizora/place/set_table.h"

namespace aoizora::place {

/// A placement of some of the positions, and the floor of everything that it can become. FloorWalk is given
/// - of groups whose chips are all chosen, what they cost there, and the sum of their loads on each link;
/// - of other groups, the least over the sets of chips that are still open to them (SetTable): by itself, and
///   its mean loads on sets of links, since one of a set carries no less than the mean;
///   Beside the complete groups each must fit in somewhere, too;
/// - where there is no table, LowerBound.
/// This sees what two structures do to each other: a group that took the good places leaves its members'
/// other groups only what lies around it.
class Partial {
 public:
  /// Of kReplay the floor holds for every replay (FloorWalk, component by component); of kLockStep for
  /// Evaluator::score: all devices wait for the slowest group, so that nothing escapes anything, and the
  /// floor is higher.
  enum class Of : std::uint8_t { kReplay, kLockStep };
  Partial(const Problem& problem, const LowerBound& bound, Of of);

  void place(std::size_t position, std::int32_t chip);
  void take_back(std::size_t position);
  const std::vector<std::int32_t>& chips() const { return chips_; }  // -1: not placed
  bool taken(std::int32_t chip) const { return taken_[static_cast<std::size_t>(chip)]; }

  /// Certified for every completion, µs: the largest of the floors of the components.
  double floor();

 private:
  struct Group {
    std::size_t missing = 0;
    ChipSet members = 0;
    std::uint32_t cost = 0;  // once nothing is missing
  };
  struct State {
    GroupCosts costs;
    SetTable table;
    std::vector<Group> groups;
    std::vector<std::vector<double>> load;  // per component, then link: complete groups, all phases
    std::vector<std::array<double, LinkSets::kMost>> means;  // per component: of complete groups, units
  };
  /// What a walk is told of one structure in one component; times per byte but the latencies, of which
  /// `longest` is the largest.
  struct Figures {
    double latency = 0, alone = 0, slowest = 0, links = 0, longest = 0;
    friend auto operator<=>(const Figures&, const Figures&) = default;
  };

  void complete(State& state, std::size_t structure, std::size_t group, double sign);
  Figures figures(std::size_t structure, std::size_t component) const;
  GroupLeast least_of(const State& state, const Group& group, const StructureFloor& floor,
                      const GroupLeast& untouched) const;
  double peak(std::size_t structure, std::size_t component, double peak) const;
  std::size_t component_of(std::size_t structure, std::size_t group) const {
    return of_ == Of::kLockStep ? 0 : problem_.component_of_group(structure, group);
  }
  double component_floor(std::size_t component);
  double window_load(std::size_t window, std::size_t component);

  const Problem& problem_;
  const LowerBound& bound_;
  Of of_;
  std::size_t components_;
  LinkSets link_sets_;
  FloorWalk walk_;
  LockStepWalk lock_step_;
  std::vector<State> states_;
  std::vector<std::int32_t> chips_;
  std::vector<bool> taken_;
  ChipSet free_ = 0;
  std::vector<int> started_;  // per component: positions placed
  std::vector<Figures> figures_;
  std::vector<double> alone_, slowest_, links_, windows_, sum_;
  std::vector<std::int32_t> scratch_;
  std::map<std::vector<Figures>, double> known_;  // floors of programs without windows
};

}  // namespace aoizora::place
