#pragma once

#include <functional>
#include <span>
#include <vector>

#include "aoizora/network/algorithm.h"
#include "aoizora/network/model.h"

/// Inside of the model, shared by model.cc and bound_evaluator.cc only.
namespace aoizora::network {

struct Model::Impl {
  Impl(const topology::Slice& slice_in, const Profile& profile_in, Assumptions assumptions_in);
  Impl(const Impl&) = delete;  // router and expander point into it

  double latency(const UnitPhase& phase) const {
    return phase.steps * profile.launch.value + phase.hop_latency;
  }

  topology::Slice slice;
  Profile profile;
  Assumptions assumptions;
  topology::Router router;
  std::vector<double> capacities;  // per link, bytes/µs
  std::vector<double> latencies;   // per link, µs
  Expander expander;
};

/// Calls `visit` with the chips of each group (of a permute: each pair), in order.
void chips_of(const Collective& collective, const topology::Placement& placement,
              const std::function<void(std::span<const Chip>)>& visit);

}  // namespace aoizora::network
