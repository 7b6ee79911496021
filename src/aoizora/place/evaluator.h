#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "aoizora/place/group_costs.h"
#include "aoizora/place/problem.h"
#include "aoizora/place/walk.h"

namespace aoizora::place {

/// Scores placements of one problem (N4's fast bound carried through the schedule). Keeps the link loads of
/// the current placement and changes only what a swap touches. One per worker; same bits whatever was asked
/// before.
class Evaluator {
 public:
  explicit Evaluator(const Problem& problem);

  const Problem& problem() const { return *problem_; }
  /// Takes a placement (a bijection: chip of each position).
  void assign(const topology::Placement& placement);
  const std::vector<std::int32_t>& chips() const { return chips_; }
  topology::Placement placement() const;
  /// Exchanges the chips of two positions. Doing it again undoes it.
  void swap(std::size_t p, std::size_t q);

  /// Lock-step step time, µs, with each collective at its fast bound and windows at their busiest link.
  double score();
  /// Certified: no event replay of this placement is faster (see FloorWalk). µs.
  double floor();
  /// Bytes times hops over the step, in µs of one link: tells placements of equal score apart.
  double volume() const;
  /// Equal for placements that put every group on the same chips (in an order that matters): all times are
  /// equal then.
  std::uint64_t signature() const;
  /// Fast bound of each transfer of the current placement, µs (as score() uses it).
  std::span<const double> transfer_times();

 private:
  struct State {
    std::vector<std::uint32_t> entry;       // per group
    std::vector<std::vector<double>> load;  // per phase and link, whole numbers
    bool stale = true;
    double latency = 0;  // µs: per phase the slowest group, summed
    double unit = 0;     // µs per byte: per phase the busiest link, summed
    double volume = 0;
  };
  void rebuild();
  void place_group(std::size_t structure, std::size_t group);
  void add(std::size_t structure, const GroupCost& cost, double sign);
  void refresh();
  double window_micros(std::size_t window_load);
  double component_floor(std::size_t component);

  /// A window as weights of structures: its load on a link is their weighted sum.
  struct WindowLoad {
    std::vector<std::pair<std::size_t, double>> weights;  // structure, µs per unit load
    bool stale = true;
    double micros = 0;   // valid unless stale
    double at_most = 0;  // the busiest links of each, as if they were the same one
  };

  const Problem* problem_;
  std::vector<GroupCosts> costs_;  // per structure
  std::vector<State> states_;
  std::vector<std::int32_t> chips_;
  std::vector<WindowLoad> window_loads_;  // distinct ones
  std::vector<std::size_t> window_load_of_;
  std::vector<double> transfer_, at_most_, sum_;
  std::vector<double> alone_, slowest_, links_, window_;
  std::vector<std::int32_t> scratch_;
  LockStepWalk walk_;
  FloorWalk floor_walk_;
};

}  // namespace aoizora::place
