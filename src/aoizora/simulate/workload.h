#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aoizora/base/units.h"
#include "aoizora/ir/program.h"
#include "aoizora/network/collective.h"
#include "aoizora/network/profile.h"

namespace aoizora::simulate {

/// One step of a device's timeline. Every device runs the same list (SPMD).
struct Op {
  enum class Kind : std::uint8_t {
    kCompute,   // `duration` on the core
    kStart,     // collective `index` begins; costs nothing on the core
    kDone,      // wait for collective `index`
    kSync,      // begin and wait
    kLoop,      // block `index`, `trips` times (N7)
    kDmaStart,  // copy or prefetch `index` begins beside compute
    kDmaDone
  };
  Kind kind{};
  Micros duration;
  std::int32_t index = -1;
  std::int64_t trips = 1;
  ir::InstructionRef source;
};

struct Block {
  std::string name;
  std::vector<Op> ops;
};

/// A compiled program reduced to what its time depends on, and independent of the placement: compute priced
/// (N6), collectives in the network model's terms, loops kept as loops.
struct Workload {
  std::vector<Block> blocks;  // blocks[0] is the entry
  std::vector<network::Collective> collectives;
  std::vector<std::string> collective_names;  // HLO name of each
  std::int64_t partitions = 0;
  Micros compute;   // one step, loops multiplied out
  Micros unpriced;  // compute time assumed for ops no rule could price
  std::vector<std::string> unpriced_ops;
  std::vector<std::string> warnings;
};

/// Lowers a scheduled program. UserError when it has no schedule and `need_schedule`; otherwise dependency
/// order.
Workload lower(const ir::Program& program, const network::Profile& profile);

}  // namespace aoizora::simulate
