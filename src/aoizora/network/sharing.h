#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "aoizora/base/units.h"

namespace aoizora::network {

/// Max-min fair rates (N4) of a changing set of flows.
///
/// Progressive filling (Bertsekas & Gallager 1992, 6.5.2): all rates rise together; when a link is full, the
/// flows over it keep their rate and the others rise on. A flow takes share * rate of each link of its route.
///
/// Incremental in two ways. A flow that comes or goes can change only the rates of flows that it is connected
/// to through shared links. And one that goes had its rate r because no link of its route was full below r:
/// up to r the filling runs as before, so only rates of r and more are filled anew. Flows of equal size end
/// fastest first, so that is often a small part.
///
/// The filling itself costs O(I log L) for I entries in the routes: a link's level (capacity left / share of
/// flows still rising) never falls, so a heap with stale keys finds the next full link. The plain algorithm
/// it is tested against is in sharing_test.cc.
class FairShare {
 public:
  /// capacity[l] in bytes/µs, above zero.
  explicit FairShare(std::span<const double> capacity);

  /// Ids of removed flows are used again. A flow without a route has an infinite rate.
  std::int32_t add(std::span<const std::pair<Link, double>> route);
  void remove(std::int32_t flow);
  /// Makes rates valid; returns the flows whose rate was computed anew, in no particular but a repeatable
  /// order.
  std::span<const std::int32_t> update();
  /// bytes/µs; valid after update().
  double rate(std::int32_t flow) const { return flows_[static_cast<std::size_t>(flow)].rate; }
  /// Removes all flows; keeps memory.
  void clear();

 private:
  struct Step {
    std::int32_t link = 0;
    double share = 0;
  };
  struct Flow {
    std::int32_t first = 0;  // into steps_
    std::int32_t count = 0;
    std::int32_t room = 0;  // steps that fit at `first`
    bool rising = false;
    bool alive = false;
    std::uint32_t seen = 0;
    double rate = 0;
  };
  /// Flows of a link in the order in which they got their rates, lowest first; those that are to be filled
  /// anew are therefore at the end.
  struct OnLink {
    std::int32_t flow = 0;
    double share = 0;
    double used = 0;  // capacity taken by this flow and all before it
  };
  struct LinkState {
    double capacity = 0;
    double weight = 0;        // shares of the flows that rise
    std::int32_t rising = 0;  // how many do, counted: `weight` is subject to rounding
    std::uint32_t seen = 0;
    std::vector<OnLink> flows;
    std::vector<std::int32_t> filling;
  };

  void touch(std::int32_t id);
  double full_level(const LinkState& link) const;
  void collect();
  void fill();
  void fix(std::int32_t id, double level);

  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<Step> steps_;
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> removed_;    // free once they are out of the links' lists
  std::vector<std::int32_t> component_;  // links to fill
  std::vector<std::int32_t> changed_;    // flows to fill
  std::vector<std::int32_t> unrouted_;
  std::vector<std::pair<double, std::int32_t>> heap_;
  double from_level_ = kEverything;  // rates below stay
  bool added_ = false;
  std::uint32_t epoch_ = 1;  // links and flows of the next update() carry it

  static constexpr double kEverything = 1e300;
};

}  // namespace aoizora::network
