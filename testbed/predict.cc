#include "predict.h"

#include <algorithm>

namespace aoizora::testbed {
namespace {

using simulate::Unit;

/// Every flow gets links of its own, as fast as the slowest that it crosses.
std::vector<double> separate_flows(std::vector<Unit>& units, std::span<const double> capacity) {
  std::vector<double> own;
  for (Unit& unit : units) {
    for (network::Phase& phase : unit.schedule.phases) {
      for (network::Flow& flow : phase.flows) {
        double slowest = 0;
        for (const auto& [link, share] : flow.route) {
          const double time = share / capacity[link.at()];
          slowest = std::max(slowest, time);
        }
        if (slowest == 0) continue;
        flow.route = {{Link(static_cast<std::int32_t>(own.size())), 1.0}};
        own.push_back(1 / slowest);
      }
    }
  }
  return own;
}

/// A unit that takes a known time, whatever else runs.
Unit fixed(std::int32_t collective, std::vector<std::int32_t> members, double micros) {
  Unit unit{collective, std::move(members), {}};
  network::Phase phase;
  phase.latency = Micros(micros);
  unit.schedule.phases.push_back(std::move(phase));
  return unit;
}

double alone(const network::Schedule& schedule, std::span<const double> capacity) {
  network::InFlight flows(capacity);
  double time = 0;
  for (const network::Phase& phase : schedule.phases) {
    time += phase.latency.value;
    std::vector<std::vector<std::pair<Link, double>>> routes;
    std::vector<double> left;
    for (const network::Flow& flow : phase.flows) {
      routes.push_back(flow.route);
      left.push_back(flow.bytes);
    }
    // Progressive filling between completions; a phase has tens of flows.
    while (!routes.empty()) {
      const std::vector<double> rates = network::max_min_rates(capacity, routes);
      double step = left[0] / rates[0];
      for (std::size_t f = 0; f < rates.size(); ++f) step = std::min(step, left[f] / rates[f]);
      time += step;
      std::size_t kept = 0;
      for (std::size_t f = 0; f < rates.size(); ++f) {
        left[f] -= rates[f] * step;
        if (left[f] <= 1e-6) continue;
        std::swap(routes[kept], routes[f]);
        left[kept++] = left[f];
      }
      routes.resize(kept);
      left.resize(kept);
    }
  }
  return time;
}

}  // namespace

Predictor::Predictor(const Program& program, const network::Model& model)
    : program_(program),
      model_(model),
      step_(simulate::flatten(program.workload)),
      expansion_(program.workload, model) {}

std::vector<Unit> Predictor::units(const topology::Placement& placement) const {
  return expansion_.units(placement, simulate::Mode::kEvent);
}

double Predictor::run(const std::vector<Unit>& units, std::size_t devices,
                      std::span<const double> capacity) const {
  const auto totals =
      simulate::run_events(step_, units, devices, program_.workload.collectives.size(), capacity);
  double end = 0;
  for (const auto& device : totals.devices) end = std::max(end, device.end);
  return end;
}

Prediction Predictor::predict(const topology::Placement& placement) const {
  Prediction result;
  const auto devices = static_cast<std::size_t>(program_.workload.partitions);
  const std::span<const double> capacity = model_.capacities();
  const std::vector<Unit> units = this->units(placement);
  result.event = run(units, devices, capacity);
  const std::vector<Unit> whole = expansion_.units(placement, simulate::Mode::kLockStep);
  result.lock_step = run(whole, 1, capacity);

  std::vector<Unit> flows = units;
  const std::vector<double> own = separate_flows(flows, capacity);
  result.no_contention = run(flows, devices, own);

  std::vector<Unit> groups;
  for (const Unit& unit : units) {
    groups.push_back(fixed(unit.collective, unit.members, alone(unit.schedule, capacity)));
    for (const network::Phase& phase : unit.schedule.phases) {
      for (const network::Flow& flow : phase.flows) {
        double hops = 0;
        for (const auto& [link, share] : flow.route) hops += share;
        const auto runs = step_.executions[static_cast<std::size_t>(unit.collective)];
        result.hop_bytes += flow.bytes * hops * static_cast<double>(runs);
      }
    }
  }
  result.axis = run(groups, devices, capacity);

  const std::vector<simulate::Alone> isolated = expansion_.alone(placement);
  std::vector<Unit> collectives;
  collectives.reserve(isolated.size());
  for (std::size_t c = 0; c < isolated.size(); ++c) {
    collectives.push_back(fixed(static_cast<std::int32_t>(c), {0}, isolated[c].time.value));
  }
  result.collective = run(collectives, 1, capacity);
  return result;
}

}  // namespace aoizora::testbed
