#pragma once

#include <string>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/workload.h"

namespace aoizora::simulate {

struct LinkLoad {
  Link link;
  Bytes bytes;  // over the step
  Micros busy;  // bytes / capacity
};

struct CollectiveTime {
  std::int32_t collective = -1;  // index into Workload::collectives
  std::int64_t executions = 0;
  Micros isolated;   // one execution, alone
  Micros in_flight;  // one execution, as replayed (mean)
  Micros exposed;    // waiting it caused over the step, slowest device
  Link busiest;
};

struct StepTime {
  Micros step;
  Micros compute;
  Micros exposed_comm;
  Micros hidden_comm;
  std::vector<LinkLoad> links;
  std::vector<CollectiveTime> collectives;
};

enum class Mode : std::uint8_t { kLockStep, kEvent };

/// Replays a workload on a placement. Lock-step (N5): all devices wait for the slowest group.
/// Event: a group starts when its last member arrives; concurrent collectives share links (N4).
class Replayer {
 public:
  Replayer(const Workload& workload, const network::Model& model);
  StepTime run(const topology::Placement& placement, Mode mode) const;
  /// Never above run(placement, any mode).step: compute plus, per exposed window, the fast bounds (N4).
  /// Fast: caches per-collective bounds by where the groups lie.
  Micros bound(const topology::Placement& placement) const;

 private:
  const Workload& workload_;
  const network::Model& model_;
};

}  // namespace aoizora::simulate
