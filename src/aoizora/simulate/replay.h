#pragma once

#include <memory>
#include <string>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/workload.h"

namespace aoizora::simulate {

struct LinkLoad {
  Link link;
  Bytes bytes;     // over the step
  Micros busy;     // bytes / capacity
  Micros waiting;  // waits of the slowest device for collectives whose busiest link this is
};

struct CollectiveTime {
  std::int32_t collective = -1;  // index into Workload::collectives
  std::int64_t executions = 0;
  Micros isolated;   // one execution, alone on the slice
  Micros in_flight;  // one execution, as replayed (mean over executions and groups)
  Micros exposed;    // waiting it caused over the step, slowest device
  Link busiest;      // invalid when nothing crosses a link
};

/// Of the slowest device (the last to end; of several, the lowest partition):
/// step = compute + exposed_comm + exposed_copies.
struct StepTime {
  Micros step;
  Micros compute;
  Micros exposed_comm;                      // waiting for collectives, and for members that come late
  Micros hidden_comm;                       // at least one of its collectives in flight, and it did not wait
  Micros exposed_copies;                    // waiting for copies that run beside compute
  std::int32_t slowest = 0;                 // partition; 0 in lock-step mode
  std::vector<LinkLoad> links;              // all links of the slice, in order
  std::vector<CollectiveTime> collectives;  // all of the workload, in order
  std::int64_t iterations_skipped = 0;      // loop iterations that N7's steady state spared
};

enum class Mode : std::uint8_t { kLockStep, kEvent };

/// Replays a workload on a placement. Lock-step (N5): all devices wait for the slowest group; one clock.
/// Event: a group starts when its last member arrives; each device has its clock. In both, concurrent
/// collectives share links max-min fairly (N4), and copies run beside compute at HBM speed, each alone.
/// docs/replay.md states both exactly. Thread-safe. Keeps references to the workload and the model.
class Replayer {
 public:
  /// UserError when the workload has more or fewer partitions than the slice has chips, or a collective names
  /// a partition that does not exist.
  Replayer(const Workload& workload, const network::Model& model);
  StepTime run(const topology::Placement& placement, Mode mode) const;
  /// Never above run(placement, any mode).step (proof: docs/replay.md). place/ has the incremental form for
  /// its search.
  Micros bound(const topology::Placement& placement) const;

 private:
  struct Impl;
  const Workload& workload_;
  const network::Model& model_;
  std::shared_ptr<const Impl> impl_;
};

/// `lock-step`, `event`; UserError names them.
Mode parse_mode(std::string_view text);

}  // namespace aoizora::simulate
