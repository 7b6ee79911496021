#pragma once

#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/units.h"
#include "program.h"

/// What the model, and simpler models than it, say of a placement.
namespace aoizora::testbed {

struct Prediction {
  double event = 0;      // µs, the replay that AoiZora ranks by
  double lock_step = 0;  // µs, its fast mode
  // Ablations, each the same replay with something taken out:
  double collective = 0;     // µs: each collective as if alone on the slice (its groups contend)
  double axis = 0;           // µs: each group as if alone: α + β · bytes of one group of the axis
  double no_contention = 0;  // µs: each flow as if alone
  double hop_bytes = 0;      // bytes times links, over the step: no time
};

class Predictor {
 public:
  Predictor(const Program& program, const network::Model& model);
  Prediction predict(const topology::Placement& placement) const;
  const simulate::StepProgram& step() const { return step_; }
  /// One unit a group, in the order of the collectives.
  std::vector<simulate::Unit> units(const topology::Placement& placement) const;

 private:
  double run(const std::vector<simulate::Unit>& units, std::size_t devices,
             std::span<const double> capacity) const;

  const Program& program_;
  const network::Model& model_;
  simulate::StepProgram step_;
  simulate::Expansion expansion_;
};

}  // namespace aoizora::testbed
