#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "aoizora/network/in_flight.h"
#include "aoizora/network/model.h"
#include "aoizora/simulate/step_program.h"

/// The discrete-event replay behind both modes. A device runs its actions on its own clock; it waits only for
/// its own copies and for its units. A unit is what starts and ends together: in event mode one group of a
/// collective (of a permute, one pair), in lock-step mode the whole collective on one device that stands for
/// all. A unit starts when its last member has come to it (N5), and shares the links with all others in
/// flight (N4).
namespace aoizora::simulate {

struct Unit {
  std::int32_t collective = -1;
  std::vector<std::int32_t> members;  // devices
  network::Schedule schedule;
};

/// Told of everything that happens, when a trace is written. Times in µs.
struct Recorder {
  std::function<void(std::int32_t device, const Action&, double from, double to)> ran;  // compute and waits
  std::function<void(std::int32_t device, std::int32_t collective, double from, double to)> in_flight;
};

struct DeviceTotals {
  double end = 0;  // µs
  double compute = 0;
  double dma_wait = 0;
  double exposed = 0;              // waiting for collectives and for members that come late
  double in_flight = 0;            // at least one of its units in flight
  double waited_in_flight = 0;     // of that, while it waited
  std::vector<double> exposed_by;  // per collective
};

struct EventTotals {
  std::vector<DeviceTotals> devices;
  std::vector<double> unit_time;        // per collective: start to end, summed over units
  std::vector<std::int64_t> unit_runs;  // per collective: units run
  std::int64_t iterations_skipped = 0;  // loops cut short by their steady state (N7)
};

struct EventOptions {
  bool steady_state = true;  // false: every iteration is replayed
  const Recorder* recorder = nullptr;
};

/// Runs `program` on `devices` devices. Cost: events, not time; loops stop when their state repeats.
EventTotals run_events(const StepProgram& program, std::span<const Unit> units, std::size_t devices,
                       std::size_t collectives, std::span<const double> capacity, EventOptions options = {});

}  // namespace aoizora::simulate
