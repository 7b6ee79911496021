#pragma once

#include <vector>

#include "aoizora/simulate/event_loop.h"
#include "aoizora/simulate/replay.h"
#include "aoizora/simulate/structures.h"

namespace aoizora::simulate {

/// What a collective is by itself on a placement.
struct Alone {
  Micros time;                                 // max-min fair, all groups together
  Micros bound;                                // N4
  std::vector<std::pair<Link, double>> loads;  // bytes per link
  Link busiest;
};

/// Lays the collectives of a workload on a placement; each structure is expanded once.
class Expansion {
 public:
  Expansion(const Workload& workload, const network::Model& model);

  /// Lock-step: one unit a collective, all on device 0. Event: one unit a group or pair.
  std::vector<Unit> units(const topology::Placement& placement, Mode mode) const;
  /// One entry a collective.
  std::vector<Alone> alone(const topology::Placement& placement) const;

 private:
  const Workload& workload_;
  const network::Model& model_;
  Structures structures_;
  std::vector<std::vector<network::Collective>> parts_;  // per structure
};

}  // namespace aoizora::simulate
