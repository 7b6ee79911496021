#pragma once

#include <cstdint>
#include <vector>

#include "aoizora/base/cancel.h"
#include "aoizora/place/evaluator.h"

namespace aoizora::place {

/// A local optimum a climb passed.
struct Optimum {
  topology::Placement placement;
  double score = 0;
  double volume = 0;
  std::uint64_t signature = 0;
};

struct Climb {
  topology::Placement placement;  // the best seen
  double score = 0;               // µs, lock-step
  double volume = 0;              // µs of one link; ties of score are broken by it
  std::int64_t evaluations = 0;
  /// Distinct optima close to the best, in the order they were met: by replay one of them may be faster.
  std::vector<Optimum> optima;
};

struct ClimbOptions {
  std::uint64_t seed = 0;
  std::int64_t evaluations = 0;  // budget; the start's own is one of them
  double good_enough = 0;        // stop when the score is not above (the certified bound)
};

/// Iterated local search from one start: swaps of two positions in random order until none helps, then a
/// disturbance (two equal boxes of chips exchanged, two groups exchanged, or a few random swaps), kept when
/// it did not get worse. Depends on its arguments only. Deterministic unless cancelled.
Climb climb(Evaluator& evaluator, const topology::Placement& start, const ClimbOptions& options,
            const Cancel& cancel);

}  // namespace aoizora::place
