#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aoizora/base/units.h"
#include "aoizora/ir/program.h"
#include "aoizora/network/model.h"
#include "aoizora/network/profile.h"

namespace aoizora::shard {

/// One collective of the local program, for the evidence.
struct CollectiveCost {
  network::Kind kind{};
  Bytes bytes;  // as network::Collective::bytes
  std::size_t groups = 0;
  std::size_t group_size = 0;
  std::int64_t executions = 0;
  Micros each;  // alone, on the row-major placement
};

/// What a candidate costs before compilation, from Shardy's local program.
struct Cost {
  Micros compute;        // roofline at the profile's efficiencies, op after op
  Micros compute_floor;  // matrix work at peak: no schedule is faster under the model
  Micros comm;           // collectives one after the other
  Bytes arguments;       // parameters and inputs on one chip
  Bytes live;            // arguments + results + the largest working set of one op
  std::vector<CollectiveCost> collectives;
  std::vector<std::string> warnings;

  /// Compute plus communication, nothing overlapped: what candidates are ranked by.
  Micros estimate() const { return compute + comm; }
};

/// Prices a local StableHLO program (N3, N6). `model` prices the collectives, on the row-major placement.
/// FLOPs of dot_general from its dimension numbers with the matrix unit's tiles filled up; attention kernels
/// from their declared cost_estimate; HBM traffic by a simple fusion model: element-wise chains are read and
/// written only where an op that can't be fused begins or ends.
Cost cost(const ir::Program& local, const network::Profile& profile, const network::Model& model);

}  // namespace aoizora::shard
