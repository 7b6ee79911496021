#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/replay.h"
#include "aoizora/simulate/workload.h"

/// The event replay again, slow and plain, to hold the real one to (docs/replay.md states what both do).
/// Everything moves forward together, from each moment at which anything changes to the next: no device runs
/// ahead, no rate is kept (max_min_rates from nothing each time), no loop is cut short, no groups are told
/// apart by structure. It shares with the real one only Model::schedule.
namespace aoizora::simulate {

struct ReferenceResult {
  double step = 0;
  std::vector<double> ends;                  // per device
  std::vector<double> compute;               // per device
  std::vector<double> copies;                // per device: waiting for copies
  std::vector<std::vector<double>> exposed;  // per device, per collective
  std::vector<double> hidden;                // per device
  std::vector<double> in_flight;             // per collective: mean over runs of its groups
};

class Reference {
 public:
  Reference(const Workload& workload, const network::Model& model, const topology::Placement& placement,
            Mode mode)
      : workload_(workload), model_(model), placement_(placement), lock_step_(mode == Mode::kLockStep) {
    devices_.resize(lock_step_ ? 1 : static_cast<std::size_t>(workload.partitions));
    for (Device& device : devices_) {
      unroll(0, device.ops);
      device.exposed.assign(workload.collectives.size(), 0);
    }
    flight_time_.assign(workload.collectives.size(), 0);
    flights_.assign(workload.collectives.size(), 0);
  }

  ReferenceResult run() {
    while (true) {
      while (settle()) {
      }
      const double step = next_change();
      if (step == kNever) break;
      pass(step);
    }
    ReferenceResult result;
    for (const Device& device : devices_) {
      result.step = std::max(result.step, device.end);
      result.ends.push_back(device.end);
      result.compute.push_back(device.computed);
      result.copies.push_back(device.copy_wait);
      result.exposed.push_back(device.exposed);
      result.hidden.push_back(device.hidden);
    }
    for (std::size_t c = 0; c < flights_.size(); ++c) {
      result.in_flight.push_back(flights_[c] == 0 ? 0 : flight_time_[c] / flights_[c]);
    }
    return result;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kZero = 1e-9;  // µs or bytes: what is less is over

  struct Device {
    std::vector<Op> ops;
    std::size_t pc = 0;
    double busy = 0;  // µs left of the compute it is in
    bool entered = false;
    std::map<std::int32_t, std::vector<std::size_t>>
        latest;                             // collective: its flights this device came to last
    std::map<std::int32_t, int> come;       // collective: how often it came to it
    std::map<std::int32_t, double> copies;  // copy: when it is there
    double end = -1, computed = 0, copy_wait = 0, hidden = 0;
    std::vector<double> exposed;
    bool waiting = false;  // for a collective
  };
  struct Flowing {
    std::vector<std::pair<Link, double>> route;
    double left = 0;
  };
  /// One run of one group.
  struct Flight {
    std::int32_t collective = 0;
    int run = 0;
    std::size_t group = 0;
    std::vector<std::int32_t> members;
    std::size_t come = 0;
    network::Schedule schedule;
    std::size_t phase = 0;
    int stage = 0;       // what comes next in it
    double latency = 0;  // µs left
    std::vector<Flowing> flows;
    bool flying = false, over = false;
    double began = 0;
  };

  void unroll(std::int32_t block, std::vector<Op>& ops) const {
    for (const Op& op : workload_.blocks[static_cast<std::size_t>(block)].ops) {
      if (op.kind == Op::Kind::kLoop) {
        for (std::int64_t i = 0; i < op.trips; ++i) unroll(op.index, ops);
      } else if (op.kind == Op::Kind::kSync) {
        ops.push_back({Op::Kind::kStart, {}, op.index, 1, {}});
        ops.push_back({Op::Kind::kDone, {}, op.index, 1, {}});
      } else {
        ops.push_back(op);
      }
    }
  }

  /// Does what takes no time; true when something was done.
  bool settle() {
    bool changed = false;
    for (std::size_t d = 0; d < devices_.size(); ++d) changed |= settle_device(static_cast<std::int32_t>(d));
    for (Flight& flight : all_) {
      if (flight.flying && flight.latency <= kZero && flight.flows.empty()) {
        next_stage(flight);
        changed = true;
      }
    }
    return changed;
  }

  /// A phase is its lead, its flows, and the rest of its latency.
  void next_stage(Flight& flight) {
    if (flight.phase == flight.schedule.phases.size()) return finish(flight);
    const network::Phase& phase = flight.schedule.phases[flight.phase];
    switch (flight.stage) {
      case 0:
        flight.latency = phase.lead.value;
        break;
      case 1:
        for (const network::Flow& flow : phase.flows) {
          if (flow.bytes > 0 && !flow.route.empty()) flight.flows.push_back({flow.route, flow.bytes});
        }
        break;
      case 2:
        flight.latency = std::max(0.0, phase.latency.value - phase.lead.value);
        break;
      default:
        ++flight.phase;
    }
    flight.stage = (flight.stage + 1) % 4;
  }

  void finish(Flight& flight) {
    flight.flying = false;
    flight.over = true;
    flight_time_[static_cast<std::size_t>(flight.collective)] += now_ - flight.began;
    flights_[static_cast<std::size_t>(flight.collective)] += 1;
  }

  bool settle_device(std::int32_t d) {
    Device& device = devices_[static_cast<std::size_t>(d)];
    if (device.pc == device.ops.size()) {
      if (device.end < 0) device.end = now_;
      return false;
    }
    const Op& op = device.ops[device.pc];
    device.waiting = false;
    switch (op.kind) {
      case Op::Kind::kCompute:
        if (!device.entered) device.busy = op.duration.value;
        device.entered = true;
        if (device.busy > kZero) return false;
        break;
      case Op::Kind::kStart:
        come(d, op.index);
        break;
      case Op::Kind::kDone:
        for (const std::size_t f : device.latest[op.index]) {
          if (!all_[f].over) {
            device.waiting = true;
            return false;
          }
        }
        break;
      case Op::Kind::kDmaStart:
        device.copies[op.index] = now_ + op.duration.value;
        break;
      case Op::Kind::kDmaDone:
        if (device.copies[op.index] > now_ + kZero) return false;
        break;
      case Op::Kind::kSync:
      case Op::Kind::kLoop:
        break;
    }
    ++device.pc;
    device.entered = false;
    return true;
  }

  void come(std::int32_t d, std::int32_t c) {
    Device& device = devices_[static_cast<std::size_t>(d)];
    const int run = device.come[c]++;
    device.latest[c].clear();
    const network::Collective& whole = workload_.collectives[static_cast<std::size_t>(c)];
    const std::size_t groups = lock_step_ ? 1 : whole.groups.size() + whole.pairs.size();
    for (std::size_t g = 0; g < groups; ++g) {
      network::Collective part = whole;
      std::vector<std::int32_t> members = {0};
      if (!lock_step_) {
        part.groups.clear();
        part.pairs.clear();
        members.clear();
        if (g < whole.groups.size()) {
          part.groups = {whole.groups[g]};
          for (const Partition p : whole.groups[g]) members.push_back(p.value);
        } else {
          const auto pair = whole.pairs[g - whole.groups.size()];
          part.pairs = {pair};
          members = {pair.first.value};
          if (pair.second != pair.first) members.push_back(pair.second.value);
        }
      }
      if (std::find(members.begin(), members.end(), d) == members.end()) continue;
      const std::size_t f = flight_of(c, run, g, members, part);
      device.latest[c].push_back(f);
      Flight& flight = all_[f];
      if (++flight.come == flight.members.size()) {
        flight.flying = true;
        flight.began = now_;
      }
    }
  }

  std::size_t flight_of(std::int32_t c, int run, std::size_t g, const std::vector<std::int32_t>& members,
                        const network::Collective& part) {
    for (std::size_t f = 0; f < all_.size(); ++f) {
      if (all_[f].collective == c && all_[f].run == run && all_[f].group == g) return f;
    }
    Flight flight;
    flight.collective = c;
    flight.run = run;
    flight.group = g;
    flight.members = members;
    flight.schedule = model_.schedule(part, placement_);
    all_.push_back(flight);
    return all_.size() - 1;
  }

  double next_change() {
    double next = kNever;
    for (Device& device : devices_) {
      if (device.pc == device.ops.size()) continue;
      const Op& op = device.ops[device.pc];
      if (op.kind == Op::Kind::kCompute) next = std::min(next, device.busy);
      if (op.kind == Op::Kind::kDmaDone) next = std::min(next, device.copies[op.index] - now_);
    }
    std::vector<std::vector<std::pair<Link, double>>> routes;
    for (const Flight& flight : all_) {
      if (!flight.flying) continue;
      if (flight.latency > kZero) next = std::min(next, flight.latency);
      for (const Flowing& flow : flight.flows) routes.push_back(flow.route);
    }
    rates_ = network::max_min_rates(model_.capacities(), routes);
    std::size_t i = 0;
    for (const Flight& flight : all_) {
      if (!flight.flying) continue;
      for (const Flowing& flow : flight.flows) next = std::min(next, flow.left / rates_[i++]);
    }
    return next;
  }

  void pass(double step) {
    now_ += step;
    for (std::size_t d = 0; d < devices_.size(); ++d) pass_device(static_cast<std::int32_t>(d), step);
    std::size_t i = 0;
    for (Flight& flight : all_) {
      if (!flight.flying) continue;
      if (flight.latency > kZero) flight.latency = std::max(0.0, flight.latency - step);
      for (Flowing& flow : flight.flows) flow.left -= step * rates_[i++];
      std::erase_if(flight.flows, [](const Flowing& flow) { return flow.left <= kZero; });
    }
  }

  void pass_device(std::int32_t d, double step) {
    Device& device = devices_[static_cast<std::size_t>(d)];
    if (device.pc == device.ops.size()) {
      // Flights of a device that is through still hide nothing: its step is over.
      return;
    }
    const Op& op = device.ops[device.pc];
    const bool flying = std::any_of(all_.begin(), all_.end(), [&](const Flight& flight) {
      return flight.flying &&
             std::find(flight.members.begin(), flight.members.end(), d) != flight.members.end();
    });
    if (device.waiting) {
      device.exposed[static_cast<std::size_t>(op.index)] += step;
    } else if (flying) {
      device.hidden += step;
    }
    if (op.kind == Op::Kind::kCompute) {
      device.busy -= step;
      device.computed += step;
    }
    if (op.kind == Op::Kind::kDmaDone) device.copy_wait += step;
  }

  const Workload& workload_;
  const network::Model& model_;
  const topology::Placement& placement_;
  bool lock_step_;
  std::vector<Device> devices_;
  std::vector<Flight> all_;
  std::vector<double> rates_;
  std::vector<double> flight_time_, flights_;
  double now_ = 0;
};

}  // namespace aoizora::simulate
