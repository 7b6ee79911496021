#include "aoizora/network/model.h"

#include <algorithm>
#include <limits>

#include "aoizora/base/error.h"
#include "aoizora/network/algorithm.h"
#include "aoizora/network/in_flight.h"
#include "aoizora/network/model_impl.h"

namespace aoizora::network {
namespace {

using topology::LinkClass;
using topology::Placement;

topology::RouteRule route_rule(Assumptions::Routing routing) {
  return {.highest_first = routing == Assumptions::Routing::kDimensionOrderYX,
          .split_ties = routing == Assumptions::Routing::kSplitTies};
}

double capacity_of(const topology::DirectedLink& link, const Profile& profile) {
  if (link.bandwidth.value > 0) {
    return link.bandwidth.value;
  }
  switch (link.link_class) {
    case LinkClass::kIci:
    case LinkClass::kGraph:
      return profile.link_bandwidth.value;
    case LinkClass::kCore:
      return profile.link_bandwidth.value * profile.core_link_scale;
    case LinkClass::kDcn:
      return profile.dcn_bandwidth.value;
  }
  AOIZORA_CHECK(false, "no link class {}", static_cast<int>(link.link_class));
}

double latency_of(const topology::DirectedLink& link, const Profile& profile) {
  if (link.latency.value >= 0) {
    return link.latency.value;
  }
  return link.link_class == LinkClass::kDcn ? profile.dcn_latency.value : profile.hop_latency.value;
}

struct Busiest {
  Link link;
  double bytes = 0;
  double time = 0;
};

void add_loads(const Phase& phase, std::vector<double>& loads) {
  for (const Flow& flow : phase.flows) {
    for (const auto& [link, share] : flow.route) {
      loads[link.at()] += flow.bytes * share;
    }
  }
}

/// By time, bytes over capacity: links differ in speed.
Busiest busiest_of(const std::vector<double>& loads, std::span<const double> capacity) {
  Busiest busiest;
  for (std::size_t l = 0; l < loads.size(); ++l) {
    if (loads[l] / capacity[l] > busiest.time) {
      busiest = {Link(static_cast<std::int32_t>(l)), loads[l], loads[l] / capacity[l]};
    }
  }
  return busiest;
}

}  // namespace

Model::Impl::Impl(const topology::Slice& slice_in, const Profile& profile_in, Assumptions assumptions_in)
    : slice(slice_in),
      profile(profile_in),
      assumptions(assumptions_in),
      router(slice, route_rule(assumptions.routing)),
      expander(router, latencies, assumptions) {
  for (const topology::DirectedLink& link : slice.links()) {
    capacities.push_back(capacity_of(link, profile));
    latencies.push_back(latency_of(link, profile));
  }
  expander = Expander(router, latencies, assumptions);
}

Model::Model(const topology::Slice& slice, const Profile& profile, Assumptions assumptions)
    : impl_(std::make_shared<const Impl>(slice, profile, assumptions)) {}

void chips_of(const Collective& collective, const Placement& placement,
              const std::function<void(std::span<const Chip>)>& visit) {
  const auto chip = [&](Partition partition) {
    if (!partition.valid() || partition.at() >= placement.size()) {
      user_error("{}: a group names partition {}, but the placement has {} positions",
                 kind_name(collective.kind), partition.value, placement.size());
    }
    return placement[partition.at()];
  };
  for (const auto& [source, target] : collective.pairs) {
    const Chip both[] = {chip(source), chip(target)};
    visit(both);
  }
  std::vector<Chip> chips;
  for (const std::vector<Partition>& group : collective.groups) {
    chips.clear();
    for (const Partition partition : group) {
      chips.push_back(chip(partition));
    }
    visit(chips);
  }
}

Schedule Model::schedule(const Collective& collective, const Placement& placement) const {
  Schedule schedule;
  const double bytes = collective.ragged.empty() ? static_cast<double>(collective.bytes.value) : 1.0;
  chips_of(collective, placement, [&](std::span<const Chip> chips) {
    const UnitSchedule unit = impl_->expander.expand(collective, chips);
    if (unit.phases.empty()) {
      return;
    }
    if (schedule.algorithm.empty()) {
      schedule.algorithm = unit.algorithm;
    } else if (schedule.algorithm != unit.algorithm) {
      schedule.algorithm = "mixed";  // groups of several shapes
    }
    schedule.phases.resize(std::max(schedule.phases.size(), unit.phases.size()));
    for (std::size_t p = 0; p < unit.phases.size(); ++p) {
      const UnitPhase& from = unit.phases[p];
      Phase& to = schedule.phases[p];
      to.steps = std::max(to.steps, from.steps);
      to.latency = std::max(to.latency, Micros(impl_->latency(from)));
      to.lead = std::max(to.lead, Micros(impl_->profile.launch.value + from.lead));
      const auto first = static_cast<std::int32_t>(to.flows.size());
      for (const UnitFlow& flow : from.flows) {
        to.flows.push_back({flow.from, flow.to, flow.share * bytes, impl_->router.route(flow.from, flow.to),
                            flow.after < 0 ? -1 : first + flow.after});
      }
    }
  });
  if (schedule.algorithm.empty()) {
    schedule.algorithm = "nothing";
  }
  return schedule;
}

Cost Model::cost(const Collective& collective, const Placement& placement) const {
  Cost cost;
  std::vector<double> total(impl_->capacities.size(), 0);
  const Schedule schedule = this->schedule(collective, placement);
  std::vector<double> loads(impl_->capacities.size());
  for (const Phase& phase : schedule.phases) {
    std::fill(loads.begin(), loads.end(), 0);
    add_loads(phase, loads);
    add_loads(phase, total);
    cost.bound += phase.latency + Micros(busiest_of(loads, impl_->capacities).time);
  }
  InFlight alone(impl_->capacities);
  std::vector<InFlight::Finished> finished;
  alone.start(schedule, Micros(0));
  alone.advance(Micros(std::numeric_limits<double>::max()), finished);
  AOIZORA_CHECK(finished.size() == 1, "a collective did not end");
  // Never below the bound, not even by a rounding error (N4).
  cost.time = std::max(cost.bound, finished.front().at);
  const Busiest busiest = busiest_of(total, impl_->capacities);
  cost.busiest = busiest.link;
  cost.busiest_bytes = Bytes(static_cast<std::int64_t>(busiest.bytes + 0.5));
  return cost;
}

Micros Model::bound(const Collective& collective, const Placement& placement) const {
  Micros bound;
  std::vector<double> loads(impl_->capacities.size());
  for (const Phase& phase : schedule(collective, placement).phases) {
    std::fill(loads.begin(), loads.end(), 0);
    add_loads(phase, loads);
    bound += phase.latency + Micros(busiest_of(loads, impl_->capacities).time);
  }
  return bound;
}

std::span<const double> Model::capacities() const { return impl_->capacities; }
std::span<const double> Model::latencies() const { return impl_->latencies; }
const topology::Router& Model::router() const { return impl_->router; }
const topology::Slice& Model::slice() const { return impl_->slice; }
const Profile& Model::profile() const { return impl_->profile; }
const Assumptions& Model::assumptions() const { return impl_->assumptions; }

}  // namespace aoizora::network
