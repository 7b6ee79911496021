#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/network/sharing.h"

namespace aoizora::network {

/// Collectives in flight at once (N4): each runs its phases in turn, and the flows of all phases that are
/// active share the links max-min fairly, anew whenever a flow begins or ends. A phase is its
/// lead, its flows, and the rest of its latency; it takes bandwidth during its flows only.
class InFlight {
 public:
  /// Keeps a reference to the capacities, as Model::capacities returns them.
  explicit InFlight(std::span<const double> capacity);

  struct Finished {
    std::int32_t id;
    Micros at;
  };

  /// Begins at `now`, which must not be before the last event. Keeps a reference to the schedule until it is
  /// over. Returns an id; ids count from 0 since clear().
  std::int32_t start(const Schedule& schedule, Micros now);
  /// The next time at which anything happens; infinity when nothing is in flight.
  Micros next();
  /// Handles everything up to and including `until` and appends what was over by then, in order of time, then
  /// id.
  void advance(Micros until, std::vector<Finished>& finished);
  void clear();
  /// Appends what is still to come, relative to `now`: for each collective in flight, oldest first, its
  /// phase, µs until the phase's flows begin or it ends, and the bytes left of those that have begun, least
  /// first. Equal rows go on equally, so a caller can tell that a loop repeats.
  void add_state(Micros now, std::vector<double>& row) const;

 private:
  struct Run {
    const Schedule* schedule = nullptr;
    std::size_t phase = 0;
    std::int32_t active = 0;  // flows of the phase not yet through
    bool through = false;     // all are: what is left of the phase is latency
  };
  struct Active {
    std::int32_t run = 0;
    double left = 0;   // bytes, at `since`
    double since = 0;  // µs
    double rate = 0;   // bytes/µs
  };
  /// The flows of `run`'s phase begin, or, if they are through, the phase ends.
  struct Begin {
    double at = 0;
    std::int32_t run = 0;
    friend auto operator<=>(const Begin&, const Begin&) = default;
  };

  void push(const Begin& begin);
  void begin_phase(std::int32_t run, double now);
  void begin_flows(std::int32_t run, double now);
  void end_flow(std::int32_t flow, double now);
  void end_flows(std::int32_t run, double now);
  void end_phase(std::int32_t run, double now, std::vector<Finished>& finished);
  void refresh();

  FairShare share_;
  std::vector<Run> runs_;
  std::vector<Active> active_;  // by flow id of share_
  // When each flow is through, infinity where there is none. Looking through all of them for the next is one
  // pass over an array per event; a heap would take a push for every flow whose rate changed.
  std::vector<double> ends_;
  double next_end_ = 0;
  std::vector<Begin> begins_;  // a heap, the earliest first
  double now_ = 0;
  bool changed_ = false;
  std::vector<Finished> pending_;  // over as soon as started: nothing to send
};

}  // namespace aoizora::network
