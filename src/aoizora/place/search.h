#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aoizora/base/cancel.h"
#include "aoizora/simulate/replay.h"
#include "aoizora/topology/mesh.h"

namespace aoizora::place {

using topology::LogicalMesh;

struct Options {
  std::uint64_t seed = 0;
  std::int64_t evaluations = 200'000;  // budget of fast-bound evaluations; determinism is promised for this
  std::size_t replayed = 64;           // how many of the best are replayed in event mode
  unsigned workers = 0;
  std::vector<network::Assumptions> assumptions;  // empty: the default one and each alternative of N9
};

struct Scored {
  std::string name;  // `row_major`, `blocks 2x2 on context`, `search`
  topology::Placement placement;
  Micros step;
  std::string note;  // why a baseline refused, what tied
};

struct ByAssumption {
  std::string name;
  Scored best;
  Micros chosen;  // the step time of the placement that was chosen, under this assumption
};

struct Ranking {
  Scored best;
  Scored worst;
  std::vector<Scored> baselines;  // create_device_mesh, row_major, default_split
  std::vector<Scored> top;        // best first, distinct up to symmetry
  std::vector<Scored> ties;       // within the model's stated error of the best
  Micros lower_bound;             // no placement can be faster under the model
  double gap = 0;                 // best / lower_bound - 1
  bool exact = false;
  std::int64_t evaluated = 0;
  std::vector<ByAssumption> by_assumption;
};

/// Ranks placements of a workload on a slice. Anytime: on cancel, the best so far with its gap.
Ranking rank(const simulate::Workload& workload, const topology::Slice& slice,
             const network::Profile& profile, const LogicalMesh& mesh, const Options& options,
             const Cancel& cancel);

/// JAX's create_device_mesh order as jax.make_mesh calls it (splitting allowed), or why it refuses.
struct DeviceMesh {
  std::optional<topology::Placement> placement;
  std::string refusal;
};
DeviceMesh create_device_mesh(const topology::Slice& slice, const LogicalMesh& mesh);

}  // namespace aoizora::place
