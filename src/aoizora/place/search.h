#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aoizora/base/cancel.h"
#include "aoizora/simulate/replay.h"
#include "aoizora/simulate/workload.h"
#include "aoizora/topology/mesh.h"

namespace aoizora::place {

using topology::LogicalMesh;

struct Options {
  std::uint64_t seed = 0;
  std::int64_t evaluations = 200'000;  // budget of fast-bound evaluations; determinism is promised for this
  std::size_t replayed = 256;          // how many of the best are replayed in event mode
  unsigned workers = 0;
  std::size_t families = 4000;  // structured placements tried at most (fewer above 64 chips)
  /// Where Cancel holds a deadline: how much of the time, from now, the search under the main assumption may
  /// take; 0: no limit of its own. The rest is for replays and for the other assumptions.
  double search_seconds = 0;
  std::int64_t exact_nodes = 60'000;  // budget of branch and bound above 8 chips; 0 switches it off there
  std::vector<network::Assumptions> assumptions;  // empty: the default one and each alternative of N9
};

struct Scored {
  /// `row_major`, `split a=x2*y2 cycle`; of one that no family has: `searched: a=x2*y2, b=irregular`.
  std::string name;
  topology::Placement placement;  // empty for a baseline that does not exist (see note)
  Micros step;                    // event replay
  std::string note;               // why a baseline refused, what tied
  Micros exposed;                 // communication the step waits for
  Micros bound;  // fast bound carried through the schedule in lock-step: what the search used
};

struct ByAssumption {
  std::string name;
  Scored best;
  Micros chosen;      // the step time of the placement that was chosen, under this assumption
  double regret = 0;  // chosen / best - 1
  Micros usual;       // the default's step time under this assumption
};

struct Ranking {
  Scored best;  // the fastest that was found
  /// The one to use: the default, if it ties with the best. Otherwise, of those that tie with the best under
  /// every assumption, the closest to the default; if none does, the one with the least largest regret.
  Scored chosen;
  Scored worst;                   // the slowest that was seen
  std::vector<Scored> baselines;  // create_device_mesh, row_major, default_split
  std::vector<Scored> top;        // best first, distinct up to symmetry
  std::vector<Scored> ties;       // within the model's stated error of the best
  Micros lower_bound;             // no placement can be faster under the model
  double gap = 0;                 // best / lower_bound - 1
  bool exact = false;             // no placement is faster, up to symmetry: all were visited or ruled out
  std::int64_t evaluated = 0;
  std::int64_t visited = 0;  // nodes of branch and bound
  /// Where the certificate leaves a gap: what the same search says if devices do not drift apart.
  struct LockStepCheck {
    bool exhaustive = false;  // every placement was scored or ruled out, up to symmetry
    double gap = 0;           // best score / least that may be left - 1
    std::int64_t visited = 0;
  };
  std::optional<LockStepCheck> lock_step;
  std::int64_t replayed = 0;
  /// default / chosen - 1, the default being create_device_mesh, else default_split.
  double margin = 0;
  bool tie = false;  // the default ties with the best: a gain below the model's stated error is none
  std::vector<std::string> bound_reasons;  // per structure: which argument its floor rests on
  std::vector<std::string> notes;
  std::vector<ByAssumption> by_assumption;
};

/// Ranks placements of a workload on a slice. Anytime: on cancel, the best so far with its gap.
Ranking rank(const simulate::Workload& workload, const topology::Slice& slice,
             const network::Profile& profile, const LogicalMesh& mesh, const Options& options,
             const Cancel& cancel);

/// N9's alternatives to the default assumptions, the default first.
std::vector<network::Assumptions> all_assumptions();
/// `ring as compiled, routes XY`.
std::string assumption_name(const network::Assumptions& assumptions);

/// The mesh that the groups of a workload were made from, as far as they tell (`axis0=4,axis1=4`): what is
/// used when none is given.
LogicalMesh infer_mesh(const simulate::Workload& workload);

/// JAX's create_device_mesh order as jax.make_mesh calls it (splitting allowed), or why it refuses.
struct DeviceMesh {
  std::optional<topology::Placement> placement;
  std::string refusal;
};
DeviceMesh create_device_mesh(const topology::Slice& slice, const LogicalMesh& mesh);

}  // namespace aoizora::place
