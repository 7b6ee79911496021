#include "aoizora/simulate/units.h"

#include <algorithm>
#include <numeric>

namespace aoizora::simulate {
namespace {

network::Schedule scaled(const network::Schedule& unit, double factor) {
  network::Schedule result = unit;
  for (network::Phase& phase : result.phases) {
    for (network::Flow& flow : phase.flows) flow.bytes *= factor;
  }
  return result;
}

Alone alone_of(const network::Cost& cost, const network::Schedule& schedule, std::size_t links) {
  std::vector<double> dense(links, 0);
  for (const network::Phase& phase : schedule.phases) {
    for (const network::Flow& flow : phase.flows) {
      for (const auto& [link, share] : flow.route) dense[link.at()] += flow.bytes * share;
    }
  }
  Alone alone{cost.time, cost.bound, {}, cost.busiest};
  for (std::size_t l = 0; l < links; ++l) {
    if (dense[l] > 0) alone.loads.emplace_back(Link(static_cast<std::int32_t>(l)), dense[l]);
  }
  return alone;
}

}  // namespace

Expansion::Expansion(const Workload& workload, const network::Model& model)
    : workload_(workload), model_(model), structures_(workload) {
  for (const network::Collective& whole : structures_.wholes) parts_.push_back(split(whole));
}

std::vector<Unit> Expansion::units(const topology::Placement& placement, Mode mode) const {
  std::vector<std::vector<Unit>> of_structure;
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    std::vector<Unit>& units = of_structure.emplace_back();
    if (mode == Mode::kLockStep) {
      units.push_back({-1, {0}, model_.schedule(structures_.wholes[s], placement)});
      continue;
    }
    for (const network::Collective& part : parts_[s]) {
      units.push_back({-1, members_of(part), model_.schedule(part, placement)});
    }
  }
  std::vector<Unit> units;
  for (std::size_t c = 0; c < structures_.of.size(); ++c) {
    for (const Unit& unit : of_structure[structures_.of[c]]) {
      units.push_back({static_cast<std::int32_t>(c), unit.members,
                       scaled(unit.schedule, structures_.scale(workload_, c))});
    }
  }
  return units;
}

std::vector<Alone> Expansion::alone(const topology::Placement& placement) const {
  std::vector<Alone> of_structure;
  std::vector<double> latency;
  const std::size_t links = model_.capacities().size();
  for (const network::Collective& whole : structures_.wholes) {
    const network::Schedule schedule = model_.schedule(whole, placement);
    of_structure.push_back(alone_of(model_.cost(whole, placement), schedule, links));
    latency.push_back(
        std::accumulate(schedule.phases.begin(), schedule.phases.end(), 0.0,
                        [](double sum, const network::Phase& p) { return sum + p.latency.value; }));
  }
  std::vector<Alone> result;
  for (std::size_t c = 0; c < structures_.of.size(); ++c) {
    Alone alone = of_structure[structures_.of[c]];
    const double factor = structures_.scale(workload_, c);
    const double fixed = latency[structures_.of[c]];
    alone.time = Micros(fixed + factor * (alone.time.value - fixed));
    alone.bound = Micros(fixed + factor * (alone.bound.value - fixed));
    for (auto& [link, bytes] : alone.loads) bytes *= factor;
    result.push_back(std::move(alone));
  }
  return result;
}

}  // namespace aoizora::simulate
