#pragma once

#include <cstdint>
#include <vector>

#include "aoizora/base/cancel.h"
#include "aoizora/place/lower_bound.h"
#include "aoizora/place/search.h"

namespace aoizora::place {

/// A placement that branch and bound could not rule out.
struct Survivor {
  topology::Placement placement;
  double floor = 0;  // µs: no replay of it is faster
  double score = 0;  // µs: lock-step
};

struct ExactResult {
  /// Placements whose floor is below `cutoff`, one of each kind that symmetry makes equal, by score.
  std::vector<Survivor> survivors;
  /// No placement is faster, µs: the smallest floor of a survivor or of what was cut off or left.
  double lower_bound = 0;
  /// All placements were visited or ruled out, and all that could not be are in `survivors`.
  bool complete = false;
  std::int64_t visited = 0;  // nodes
};

struct ExactOptions {
  double cutoff = 0;               // µs: an event replay that is known; only faster ones are of interest
  std::int64_t nodes = 1'000'000;  // budget
  std::size_t survivors = 20'000;  // room; beyond, the result is not complete
  /// Floors, cutoff and bound are those of the lock-step score instead of every replay.
  bool lock_step = false;
};

/// Best-first branch and bound over all bijections: positions in order, each on a free chip; a node's bound
/// is Partial::floor. Stopped early, the least floor that is open still bounds everything. Symmetric
/// placements are cut: those a symmetry of the slice maps onto each other, or those that an exchange of
/// slabs of an exchangeable axis does. Deterministic; single-threaded.
ExactResult branch_and_bound(const Problem& problem, const LogicalMesh& mesh, const LowerBound& bound,
                             const ExactOptions& options, const Cancel& cancel);

}  // namespace aoizora::place
