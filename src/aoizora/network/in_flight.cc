#include "aoizora/network/in_flight.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "aoizora/base/error.h"

namespace aoizora::network {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

/// Events this close are one: symmetric flows end together though their sums round differently.
constexpr double kTogether = 1e-12;

}  // namespace

InFlight::InFlight(std::span<const double> capacity) : share_(capacity) {}

void InFlight::clear() {
  share_.clear();
  runs_.clear();
  active_.clear();
  heap_.clear();
  pending_.clear();
  now_ = 0;
  changed_ = false;
}

void InFlight::push(const Event& event) {
  heap_.push_back(event);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

InFlight::Event InFlight::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const Event event = heap_.back();
  heap_.pop_back();
  return event;
}

bool InFlight::stale(const Event& event) const {
  return event.flow >= 0 && active_[at(event.flow)].version != event.version;
}

std::int32_t InFlight::start(const Schedule& schedule, Micros now) {
  AOIZORA_CHECK(now.value >= now_ * (1 - kTogether), "a collective starts at {} µs, before {}", now.value,
                now_);
  refresh();
  now_ = std::max(now_, now.value);
  const auto run = static_cast<std::int32_t>(runs_.size());
  runs_.push_back({&schedule, 0, 0});
  if (schedule.phases.empty()) {
    pending_.push_back({run, now});
  } else {
    begin_phase(run, now.value);
  }
  return run;
}

void InFlight::begin_phase(std::int32_t run, double now) {
  const Phase& phase = runs_[at(run)].schedule->phases[runs_[at(run)].phase];
  push({now + phase.latency.value, -1, run, 0});
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
    }
    Active& added = active_[at(id)];
    added = {run, flow.bytes, now, 0, added.version + 1};
    ++state.active;
    changed_ = true;
  }
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

void InFlight::end_flow(std::int32_t flow, double now, std::vector<Finished>& finished) {
  const std::int32_t run = active_[at(flow)].run;
  ++active_[at(flow)].version;
  active_[at(flow)].run = -1;
  share_.remove(flow);
  changed_ = true;
  if (--runs_[at(run)].active == 0) {
    end_phase(run, now, finished);
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
    ++flow.version;
    push({now_ + flow.left / rate, id, flow.run, flow.version});
  }
}

void InFlight::add_state(Micros now, std::vector<double>& row) const {
  // (run, is it a flow, µs or bytes)
  std::vector<std::tuple<std::int32_t, bool, double>> parts;
  for (const Event& event : heap_) {
    if (event.flow < 0) {
      parts.emplace_back(event.run, false, event.at - now.value);
    }
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
      row.push_back(static_cast<double>(runs_[at(run)].phase));
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
  while (!heap_.empty() && stale(heap_.front())) {
    pop();
  }
  return Micros(heap_.empty() ? std::numeric_limits<double>::infinity() : heap_.front().at);
}

void InFlight::advance(Micros until, std::vector<Finished>& finished) {
  const std::size_t first = finished.size();
  finished.insert(finished.end(), pending_.begin(), pending_.end());
  pending_.clear();
  while (next().value <= until.value) {
    now_ = std::max(now_, heap_.front().at);
    const double together = now_ * (1 + kTogether);
    while (!heap_.empty() && heap_.front().at <= together) {
      const Event event = pop();
      if (stale(event)) {
        continue;
      }
      if (event.flow >= 0) {
        end_flow(event.flow, now_, finished);
      } else {
        begin_flows(event.run, now_);
        if (runs_[at(event.run)].active == 0) {
          end_phase(event.run, now_, finished);
        }
      }
    }
  }
  std::sort(finished.begin() + static_cast<std::ptrdiff_t>(first), finished.end(),
            [](const Finished& a, const Finished& b) {
              return a.at.value != b.at.value ? a.at < b.at : a.id < b.id;
            });
}

}  // namespace aoizora::network
