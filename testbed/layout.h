#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/event_loop.h"

/// A program laid on the chips, as the processes of the testbed execute it: which flows each collective is
/// made of (rule N3, from the network model), and what each byte of them waits for.
namespace aoizora::testbed {

/// One transfer, of one execution of a collective.
struct FlowPlan {
  std::int32_t from = 0;  // chips
  std::int32_t to = 0;
  std::int64_t bytes = 0;
  /// The flow whose bytes this one passes on (a ring: what the member before sends); -1: all bytes are there.
  /// Byte b waits for byte b - first of that flow: round k of a ring goes on as it arrives.
  std::int32_t after = -1;
  std::int64_t first = 0;  // bytes that wait for nothing
  std::int32_t unit = 0;
  std::int32_t phase = 0;
};

/// One group of one execution of a collective. It begins when its last member has come to it (N5).
struct UnitPlan {
  std::vector<std::int32_t> members;      // chips
  std::int32_t first_flow = 0;            // flows are numbered phase after phase
  std::vector<std::int32_t> phase_flows;  // per phase, how many
};

struct Action {
  enum class Kind : std::uint8_t { kCompute, kStart, kDone, kCopy, kCopied };
  Kind kind{};
  std::int32_t index = 0;  // execution of a collective (kStart, kDone), copy
  std::int64_t nanos = 0;
};

struct Layout {
  std::vector<Action> actions;  // the same on every chip
  std::size_t copies = 0;
  std::vector<std::vector<std::int32_t>> units_of;  // per execution
  std::vector<UnitPlan> units;
  std::vector<FlowPlan> flows;
};

/// UserError when the program is too large for the testbed's tables.
Layout lay_out(const simulate::StepProgram& program, std::span<const simulate::Unit> units,
               const topology::Placement& placement);

}  // namespace aoizora::testbed
