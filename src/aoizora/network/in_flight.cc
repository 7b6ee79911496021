#include "aoizora/network/in_flight.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <tuple>

#include "aoizora/base/error.h"

namespace aoizora::network {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

/// Events this close are one: symmetric flows end together though their sums round differently.
constexpr double kTogether = 1e-12;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

InFlight::InFlight(std::span<const double> capacity) : share_(capacity), next_end_(kNever) {}

void InFlight::clear() {
  share_.clear();
  runs_.clear();
  active_.clear();
  ends_.clear();
  next_end_ = kNever;
  begins_.clear();
  pending_.clear();
  now_ = 0;
  changed_ = false;
}

std::int32_t InFlight::start(const Schedule& schedule, Micros now) {
  AOIZORA_CHECK(now.value >= now_ * (1 - kTogether), "a collective starts at {} µs, before {}", now.value,
                now_);
  refresh();
  now_ = std::max(now_, now.value);
  const auto run = static_cast<std::int32_t>(runs_.size());
  runs_.push_back({&schedule});
  if (schedule.phases.empty()) {
    pending_.push_back({run, now});
  } else {
    begin_phase(run, now.value);
  }
  return run;
}

void InFlight::push(const Begin& begin) {
  begins_.push_back(begin);
  std::push_heap(begins_.begin(), begins_.end(), std::greater<>());
}

void InFlight::begin_phase(std::int32_t run, double now) {
  runs_[at(run)].through = false;
  push({now + runs_[at(run)].schedule->phases[runs_[at(run)].phase].lead.value, run});
}

void InFlight::begin_flows(std::int32_t run, double now) {
  Run& state = runs_[at(run)];
  for (const Flow& flow : state.schedule->phases[state.phase].flows) {
    if (flow.bytes <= 0 || flow.route.empty()) {
      continue;
    }
    const std::int32_t id = share_.add(flow.route);
    if (active_.size() <= at(id)) {
      active_.resize(at(id) + 1);
      ends_.resize(at(id) + 1, kNever);
    }
    active_[at(id)] = {run, flow.bytes, now, 0};
    ++state.active;
    changed_ = true;
  }
}

/// The last flow is through; the phase is over after the rest of its latency.
void InFlight::end_flows(std::int32_t run, double now) {
  Run& state = runs_[at(run)];
  const Phase& phase = state.schedule->phases[state.phase];
  state.through = true;
  push({now + std::max(0.0, phase.latency.value - phase.lead.value), run});
}

void InFlight::end_phase(std::int32_t run, double now, std::vector<Finished>& finished) {
  Run& state = runs_[at(run)];
  if (++state.phase == state.schedule->phases.size()) {
    state.schedule = nullptr;
    finished.push_back({run, Micros(now)});
  } else {
    begin_phase(run, now);
  }
}

void InFlight::end_flow(std::int32_t flow, double now) {
  const std::int32_t run = active_[at(flow)].run;
  ends_[at(flow)] = kNever;
  active_[at(flow)].run = -1;
  share_.remove(flow);
  changed_ = true;
  if (--runs_[at(run)].active == 0) {
    end_flows(run, now);
  }
}

/// New rates, and when each flow that got one will be through.
void InFlight::refresh() {
  if (!changed_) {
    return;
  }
  changed_ = false;
  for (const std::int32_t id : share_.update()) {
    Active& flow = active_[at(id)];
    const double rate = share_.rate(id);
    if (rate == flow.rate) {
      continue;
    }
    flow.left = std::max(0.0, flow.left - flow.rate * (now_ - flow.since));
    flow.since = now_;
    flow.rate = rate;
    ends_[at(id)] = now_ + flow.left / rate;
  }
  // Four partial minima, so that the compiler may keep them in one register.
  std::array<double, 4> least{kNever, kNever, kNever, kNever};
  std::size_t i = 0;
  for (; i + 4 <= ends_.size(); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) {
      least[j] = std::min(least[j], ends_[i + j]);
    }
  }
  for (; i < ends_.size(); ++i) {
    least[0] = std::min(least[0], ends_[i]);
  }
  next_end_ = *std::min_element(least.begin(), least.end());
}

void InFlight::add_state(Micros now, std::vector<double>& row) const {
  // (run, is it a flow, µs or bytes)
  std::vector<std::tuple<std::int32_t, bool, double>> parts;
  for (const Begin& begin : begins_) {
    parts.emplace_back(begin.run, false, begin.at - now.value);
  }
  for (const Active& flow : active_) {
    if (flow.run >= 0) {
      parts.emplace_back(flow.run, true, flow.left - flow.rate * (now.value - flow.since));
    }
  }
  std::sort(parts.begin(), parts.end());
  std::int32_t last = -1;
  for (const auto& [run, flows, value] : parts) {
    if (run != last) {
      row.push_back(static_cast<double>(runs_[at(run)].phase) + (runs_[at(run)].through ? 0.5 : 0.0));
      last = run;
    }
    row.push_back(value);
  }
  row.push_back(static_cast<double>(pending_.size()));
}

Micros InFlight::next() {
  if (!pending_.empty()) {
    return pending_.front().at;
  }
  refresh();
  return Micros(begins_.empty() ? next_end_ : std::min(next_end_, begins_.front().at));
}

void InFlight::advance(Micros until, std::vector<Finished>& finished) {
  const std::size_t first = finished.size();
  finished.insert(finished.end(), pending_.begin(), pending_.end());
  pending_.clear();
  for (double at_time = next().value; at_time <= until.value && at_time < kNever; at_time = next().value) {
    now_ = std::max(now_, at_time);
    const double together = now_ * (1 + kTogether);
    if (next_end_ <= together) {
      for (std::size_t flow = 0; flow < ends_.size(); ++flow) {
        if (ends_[flow] <= together) {
          end_flow(static_cast<std::int32_t>(flow), now_);
        }
      }
    }
    while (!begins_.empty() && begins_.front().at <= together) {
      std::pop_heap(begins_.begin(), begins_.end(), std::greater<>());
      const std::int32_t run = begins_.back().run;
      begins_.pop_back();
      if (runs_[at(run)].through) {
        end_phase(run, now_, finished);
        continue;
      }
      begin_flows(run, now_);
      if (runs_[at(run)].active == 0) {
        end_flows(run, now_);
      }
    }
  }
  std::sort(finished.begin() + static_cast<std::ptrdiff_t>(first), finished.end(),
            [](const Finished& a, const Finished& b) {
              return a.at.value != b.at.value ? a.at < b.at : a.id < b.id;
            });
}

}  // namespace aoizora::network
