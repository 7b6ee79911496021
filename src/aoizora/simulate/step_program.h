#pragma once

#include <cstdint>
#include <vector>

#include "aoizora/simulate/workload.h"

/// A workload flattened for replay: one array of actions with jumps for loops, compute runs merged, loops
/// without communication multiplied out. Independent of slice and placement.
namespace aoizora::simulate {

struct Action {
  enum class Kind : std::uint8_t {
    kCompute,
    kStart,
    kDone,
    kDmaStart,
    kDmaDone,
    kLoopBegin,  // `index` is the loop; enters it, or jumps to `target` when `trips` is 0
    kLoopEnd     // back to `target`, the first action of the body, while trips are left
  };
  Kind kind{};
  std::int32_t index = -1;
  double micros = 0;
  std::int64_t trips = 1;
  std::size_t target = 0;
  ir::InstructionRef source;
};

/// How a loop is entered, for the steady state (N7).
struct LoopInfo {
  std::size_t begin = 0;  // first action of the body
  std::size_t end = 0;    // its kLoopEnd
};

struct StepProgram {
  std::vector<Action> actions;
  std::vector<LoopInfo> loops;
  std::size_t dmas = 0;
  std::vector<std::int64_t> executions;  // per collective, in one step
};

struct FlattenOptions {
  bool merge = true;  // false: one action per op, every loop kept (for a trace)
};

/// InternalError when a block or collective does not exist or blocks nest in themselves.
StepProgram flatten(const Workload& workload, FlattenOptions options = {});

}  // namespace aoizora::simulate
