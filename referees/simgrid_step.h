#pragma once

#include <memory>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/workload.h"

namespace aoizora::referees {

/// Times a step in SimGrid: the program's ops in order on one clock (lock-step), each collective as the
/// phases of flows that the model lays on the slice, the sharing of links and the course of time SimGrid's
/// own. A loop's body runs once and counts by its trips: nothing is in flight across its end.
class SimGridStep {
 public:
  /// One a process. `argv0` names the engine.
  explicit SimGridStep(char* argv0);
  ~SimGridStep();
  /// Adds a slice's network. Before the first run only.
  void add(const network::Model& model);
  /// Step times of the placements on the slice of `model`, µs. Everything runs in one SimGrid simulation, so
  /// it can be asked once.
  struct Job {
    const network::Model* model = nullptr;
    const simulate::Workload* workload = nullptr;
    topology::Placement placement;
    double step = 0;  // the answer
  };
  void run(std::vector<Job>& jobs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace aoizora::referees
