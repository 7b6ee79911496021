#include "aoizora/simulate/event_loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "aoizora/base/error.h"

namespace aoizora::simulate {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Events this close, relative to the time, are one: symmetric devices round their sums differently.
constexpr double kTogether = 1e-12;
/// States this close are the same: µs or bytes, absolute and relative. Over a loop of 10^4 trips the error of
/// a jump stays below 0.01 µs.
constexpr double kSameAbsolute = 1e-6;
constexpr double kSameRelative = 1e-9;
/// A steady state may alternate; longer periods are replayed in full.
constexpr std::size_t kLongestPeriod = 4;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

/// For how long at least one unit of a device was in flight, answerable for times since its last wait.
class BusyTime {
 public:
  void begin(double now) {
    if (count_++ == 0) mark(now);
  }
  void end(double now) {
    if (--count_ == 0) {
      total_ += now - marks_.back().time;
      marks_.push_back({now, total_, false});
    }
  }
  /// µs up to `time`, which is not before the last forget().
  double until(double time) const {
    for (auto found = marks_.rbegin(); found != marks_.rend(); ++found) {
      if (found->time <= time) return found->total + (found->active ? time - found->time : 0);
    }
    return 0;
  }
  void forget(double before) {
    std::size_t keep = 0;
    while (keep + 1 < marks_.size() && marks_[keep + 1].time <= before) ++keep;
    marks_.erase(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(keep));
  }
  void add(double micros) {
    total_ += micros;
    for (Mark& mark : marks_) mark.total += micros;
  }

 private:
  struct Mark {
    double time = 0;
    double total = 0;
    bool active = false;
  };
  void mark(double now) { marks_.push_back({now, total_, true}); }

  std::int32_t count_ = 0;
  double total_ = 0;
  std::vector<Mark> marks_;
};

class EventLoop {
 public:
  EventLoop(const StepProgram& program, std::span<const Unit> units, std::size_t devices,
            std::size_t collectives, std::span<const double> capacity, EventOptions options)
      : program_(program),
        units_(units),
        collectives_(collectives),
        options_(options),
        network_(capacity),
        devices_(devices),
        states_(units.size()),
        units_of_(devices * collectives),
        starts_(devices * collectives, 0),
        snapshots_(program.loops.size()) {
    totals_.devices.resize(devices);
    totals_.unit_time.assign(collectives, 0);
    totals_.unit_runs.assign(collectives, 0);
    for (std::size_t d = 0; d < devices; ++d) {
      totals_.devices[d].exposed_by.assign(collectives, 0);
      devices_[d].left.assign(program.loops.size(), 0);
      devices_[d].copied.assign(program.dmas, 0);
    }
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (const std::int32_t member : units[u].members) {
        units_of_[slot(at(member), units[u].collective)].push_back(static_cast<std::int32_t>(u));
      }
    }
  }

  EventTotals run() {
    for (std::size_t d = 0; d < devices_.size(); ++d) proceed(d);
    while (step()) {
      if (wanted_ >= 0) look_for_steady_state(at(wanted_));
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      AOIZORA_CHECK(devices_[d].over, "device {} waits for collective {} for ever", d, devices_[d].waiting);
      totals_.devices[d].end = devices_[d].clock + devices_[d].skipped;
      totals_.devices[d].in_flight = devices_[d].busy.until(kNever);
    }
    return std::move(totals_);
  }

 private:
  struct Device {
    std::size_t pc = 0;
    double clock = 0;  // where it is, or since when it waits
    std::int32_t waiting = -1;
    bool over = false;
    double skipped = 0;              // µs of iterations not replayed
    std::vector<std::int64_t> left;  // per loop: iterations left, with the current one
    std::vector<double> copied;      // per copy: when it is there
    BusyTime busy;
  };

  /// One run of a unit that not all members have come to.
  struct Gathering {
    std::size_t come = 0;
    double last = 0;
  };
  struct UnitState {
    std::vector<Gathering> gathering;  // runs `begun` and later
    std::int64_t begun = 0;            // complete: started or about to
    std::int64_t finished = 0;
  };

  struct Run {
    std::int32_t unit = -1;
    double start = 0;
  };

  struct Ready {
    double time = 0;
    std::int32_t unit = 0;
    friend auto operator<=>(const Ready&, const Ready&) = default;
  };

  struct Snapshot {
    std::vector<double> state;
    std::vector<double> totals;
    double now = 0;
    std::int64_t left = 0;  // of device 0
  };

  std::size_t slot(std::size_t device, std::int32_t collective) const {
    return device * collectives_ + at(collective);
  }

  /// Runs a device until it has to wait or is through.
  void proceed(std::size_t d) {
    Device& device = devices_[d];
    DeviceTotals& totals = totals_.devices[d];
    device.waiting = -1;
    while (device.pc < program_.actions.size()) {
      const Action& action = program_.actions[device.pc];
      switch (action.kind) {
        case Action::Kind::kCompute:
          record(d, action, device.clock, device.clock + action.micros);
          device.clock += action.micros;
          totals.compute += action.micros;
          break;
        case Action::Kind::kStart:
          come(d, action.index);
          break;
        case Action::Kind::kDone:
          if (!through(d, action.index)) {
            device.waiting = action.index;
            return;
          }
          break;
        case Action::Kind::kDmaStart:
          device.copied[at(action.index)] = device.clock + action.micros;
          break;
        case Action::Kind::kDmaDone:
          wait_for_copy(d, action);
          break;
        case Action::Kind::kLoopBegin:
          device.left[at(action.index)] = action.trips;
          if (d == 0) snapshots_[at(action.index)].clear();
          break;
        case Action::Kind::kLoopEnd:
          if (--device.left[at(action.index)] > 0) {
            device.pc = action.target;
            if (d == 0) wanted_ = action.index;
            continue;
          }
          break;
      }
      ++device.pc;
    }
    device.over = true;
  }

  void wait_for_copy(std::size_t d, const Action& action) {
    Device& device = devices_[d];
    const double there = device.copied[at(action.index)];
    if (there > device.clock) {
      record(d, action, device.clock, there);
      totals_.devices[d].dma_wait += there - device.clock;
      device.clock = there;
    }
  }

  void record(std::size_t d, const Action& action, double from, double to) const {
    if (options_.recorder != nullptr && to > from) {
      options_.recorder->ran(static_cast<std::int32_t>(d), action, from, to);
    }
  }

  /// N5: the last member to come starts the unit.
  void come(std::size_t d, std::int32_t collective) {
    const std::int64_t run = starts_[slot(d, collective)]++;
    for (const std::int32_t u : units_of_[slot(d, collective)]) {
      UnitState& state = states_[at(u)];
      const auto index = static_cast<std::size_t>(run - state.begun);
      if (state.gathering.size() <= index) state.gathering.resize(index + 1);
      Gathering& gathering = state.gathering[index];
      gathering.last = std::max(gathering.last, devices_[d].clock);
      // Members come to run after run in order, so the first run in the list is complete first.
      if (++gathering.come == units_[at(u)].members.size()) {
        ready_.push_back({gathering.last, u});
        std::push_heap(ready_.begin(), ready_.end(), std::greater<>());
        state.gathering.erase(state.gathering.begin());
        ++state.begun;
      }
    }
  }

  bool through(std::size_t d, std::int32_t collective) const {
    const std::int64_t wanted = starts_[slot(d, collective)];
    const auto& units = units_of_[slot(d, collective)];
    return std::all_of(units.begin(), units.end(),
                       [&](std::int32_t u) { return states_[at(u)].finished >= wanted; });
  }

  /// Handles the next moment at which something happens; false when nothing will.
  bool step() {
    const double ready = ready_.empty() ? kNever : ready_.front().time;
    const double next = network_.next().value;
    now_ = std::min(ready, next);
    if (now_ == kNever) return false;
    if (next <= now_ * (1 + kTogether)) {
      now_ = std::max(now_, next);
      finished_.clear();
      network_.advance(Micros(now_), finished_);
      for (const network::InFlight::Finished& over : finished_) finish(over);
    }
    while (!ready_.empty() && ready_.front().time <= now_ * (1 + kTogether)) start_ready();
    std::sort(resumed_.begin(), resumed_.end());
    resumed_.erase(std::unique(resumed_.begin(), resumed_.end()), resumed_.end());
    for (const std::int32_t d : resumed_) resume(at(d));
    resumed_.clear();
    return true;
  }

  void start_ready() {
    std::pop_heap(ready_.begin(), ready_.end(), std::greater<>());
    const std::int32_t u = ready_.back().unit;
    ready_.pop_back();
    const std::int32_t id = network_.start(units_[at(u)].schedule, Micros(now_));
    if (runs_.size() <= at(id)) runs_.resize(at(id) + 1);
    runs_[at(id)] = {u, now_};
    running_.push_back(id);
    for (const std::int32_t member : units_[at(u)].members) devices_[at(member)].busy.begin(now_);
  }

  void finish(const network::InFlight::Finished& over) {
    const auto [u, start] = runs_[at(over.id)];
    running_.erase(std::find(running_.begin(), running_.end(), over.id));
    ++states_[at(u)].finished;
    const Unit& unit = units_[at(u)];
    totals_.unit_time[at(unit.collective)] += now_ - start;
    ++totals_.unit_runs[at(unit.collective)];
    for (const std::int32_t member : unit.members) {
      devices_[at(member)].busy.end(now_);
      if (devices_[at(member)].waiting == unit.collective) resumed_.push_back(member);
      if (options_.recorder != nullptr) {
        options_.recorder->in_flight(member, unit.collective, start, now_);
      }
    }
  }

  void resume(std::size_t d) {
    Device& device = devices_[d];
    if (!through(d, device.waiting)) return;
    if (now_ > device.clock) {
      record(d, program_.actions[device.pc], device.clock, now_);
      DeviceTotals& totals = totals_.devices[d];
      totals.exposed += now_ - device.clock;
      totals.exposed_by[at(device.waiting)] += now_ - device.clock;
      totals.waited_in_flight += device.busy.until(now_) - device.busy.until(device.clock);
      device.clock = now_;
    }
    device.busy.forget(now_);
    ++device.pc;
    proceed(d);
  }

  // ---- N7: a loop whose state at the end of an iteration is that of an earlier one, moved in time, repeats.

  void look_for_steady_state(std::size_t loop) {
    wanted_ = -1;
    if (!options_.steady_state) return;
    Snapshot snapshot = take(loop);
    auto& earlier = snapshots_[loop];
    for (auto found = earlier.rbegin(); found != earlier.rend(); ++found) {
      if (same(found->state, snapshot.state) && jump(loop, *found, snapshot)) {
        earlier.clear();
        return;
      }
    }
    if (earlier.size() == kLongestPeriod) earlier.erase(earlier.begin());
    earlier.push_back(std::move(snapshot));
  }

  static bool same(const std::vector<double>& a, const std::vector<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
      return std::abs(x - y) <= kSameAbsolute + kSameRelative * std::max(std::abs(x), std::abs(y));
    });
  }

  Snapshot take(std::size_t loop) {
    Snapshot snapshot;
    // Inner loops may have jumped meanwhile; they took all devices along that are not over.
    snapshot.now = now_ + devices_[0].skipped;
    snapshot.left = devices_[0].left[loop];
    std::vector<double>& state = snapshot.state;
    for (const Device& device : devices_) add_device(device, loop, state);
    for (std::size_t u = 0; u < units_.size(); ++u) add_unit(u, state);
    for (const std::int32_t id : running_) state.push_back(runs_[at(id)].unit);
    network_.add_state(Micros(now_), state);
    snapshot.totals = totals();
    return snapshot;
  }

  void add_device(const Device& device, std::size_t loop, std::vector<double>& state) const {
    state.push_back(device.over ? 1 : 0);
    if (device.over) return;
    state.push_back(static_cast<double>(device.pc));
    state.push_back(device.clock - now_);
    for (std::size_t l = 0; l < device.left.size(); ++l) {
      const std::int64_t from = l == loop ? devices_[0].left[loop] : 0;
      state.push_back(static_cast<double>(device.left[l] - from));
    }
    for (const double there : device.copied) state.push_back(std::max(there - device.clock, 0.0));
  }

  void add_unit(std::size_t u, std::vector<double>& state) const {
    const UnitState& unit = states_[u];
    for (const std::int32_t member : units_[u].members) {
      state.push_back(static_cast<double>(starts_[slot(at(member), units_[u].collective)] - unit.finished));
    }
    state.push_back(static_cast<double>(unit.begun - unit.finished));
    for (const Gathering& gathering : unit.gathering) {
      state.push_back(static_cast<double>(gathering.come));
      state.push_back(gathering.last - now_);
    }
    for (const Ready& ready : ready_) {
      if (at(ready.unit) == u) state.push_back(ready.time - now_);
    }
  }

  /// All sums, in one row.
  std::vector<double> totals() const {
    std::vector<double> row;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const DeviceTotals& device = totals_.devices[d];
      row.insert(row.end(), {device.compute, device.dma_wait, device.exposed, device.waited_in_flight,
                             devices_[d].busy.until(now_)});
      row.insert(row.end(), device.exposed_by.begin(), device.exposed_by.end());
    }
    row.insert(row.end(), totals_.unit_time.begin(), totals_.unit_time.end());
    for (const std::int64_t runs : totals_.unit_runs) row.push_back(static_cast<double>(runs));
    return row;
  }

  /// Skips as many whole periods as all devices have left; false when there is none to skip.
  bool jump(std::size_t loop, const Snapshot& from, const Snapshot& to) {
    const LoopInfo& info = program_.loops[loop];
    const std::int64_t period = from.left - to.left;
    std::int64_t least = to.left;
    for (const Device& device : devices_) {
      if (device.over) continue;
      if (device.pc < info.begin || device.pc > info.end) return false;
      least = std::min(least, device.left[loop]);
    }
    // The last iteration is replayed: a device leaves the loop at its end.
    const std::int64_t times = period > 0 ? (least - 1) / period : 0;
    if (times < 1) return false;
    const auto scale = static_cast<double>(times);
    for (Device& device : devices_) {
      if (device.over) continue;
      device.left[loop] -= times * period;
      device.skipped += scale * (to.now - from.now);
    }
    add_totals(from.totals, to.totals, scale);
    totals_.iterations_skipped += times * period;
    return true;
  }

  void add_totals(const std::vector<double>& from, const std::vector<double>& to, double scale) {
    std::size_t i = 0;
    const auto grown = [&] {
      const double change = scale * (to[i] - from[i]);
      ++i;
      return change;
    };
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      DeviceTotals& device = totals_.devices[d];
      device.compute += grown();
      device.dma_wait += grown();
      device.exposed += grown();
      device.waited_in_flight += grown();
      devices_[d].busy.add(grown());
      for (double& exposed : device.exposed_by) exposed += grown();
    }
    for (double& time : totals_.unit_time) time += grown();
    for (std::int64_t& runs : totals_.unit_runs) runs += std::llround(grown());
  }

  const StepProgram& program_;
  std::span<const Unit> units_;
  std::size_t collectives_;
  EventOptions options_;
  network::InFlight network_;
  std::vector<Device> devices_;
  std::vector<UnitState> states_;
  std::vector<std::vector<std::int32_t>> units_of_;  // per device and collective
  std::vector<std::int64_t> starts_;                 // per device and collective
  std::vector<Ready> ready_;                         // heap, earliest first
  std::vector<Run> runs_;                            // by id of network_
  std::vector<std::int32_t> running_;                // ids of network_, oldest first
  std::vector<network::InFlight::Finished> finished_;
  std::vector<std::int32_t> resumed_;
  std::vector<std::vector<Snapshot>> snapshots_;  // per loop, oldest first
  std::int32_t wanted_ = -1;                      // loop whose iteration device 0 has just ended
  double now_ = 0;
  EventTotals totals_;
};

}  // namespace

EventTotals run_events(const StepProgram& program, std::span<const Unit> units, std::size_t devices,
                       std::size_t collectives, std::span<const double> capacity, EventOptions options) {
  return EventLoop(program, units, devices, collectives, capacity, options).run();
}

}  // namespace aoizora::simulate
