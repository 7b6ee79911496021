#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "aoizora/ir/program.h"
#include "aoizora/network/profile.h"

/// What one instruction costs on the core (N6). Nothing here knows of the network.
namespace aoizora::simulate {

/// Where the time of an op comes from, best source first.
enum class PricedBy : std::uint8_t {
  kNothing,         // moves no data and computes nothing: bitcast, tuple, parameter, a copy's start
  kCompiler,        // `estimated_cycles` of its backend_config, over the clock
  kDeclaredCost,    // a Pallas kernel's own cost estimate, at flash_efficiency of peak (N9)
  kAttentionShape,  // a Pallas kernel without one: 4 * batch*heads * queries * keys * head dim, same
                    // efficiency
  kRoofline,        // dots and convolutions at matmul_efficiency of peak, else bytes at hbm_efficiency
  kGuess            // no rule knows the op: its bytes at HBM speed, and it is reported
};

struct OpCost {
  Micros time;
  PricedBy by = PricedBy::kNothing;
  double flops = 0;  // where a rule counted them
};

/// Prices an instruction that runs on the core. Collectives, copies that run beside compute, loops and calls
/// are not ops here: they cost nothing (kNothing).
OpCost price(const ir::Program& program, ir::InstructionRef ref, const network::Profile& profile);

/// FLOPs of the dots and convolutions in a computation, through fusions in it; 2 per multiply-add.
double matmul_flops(const ir::Program& program, ir::ComputationId computation);

/// Time of a copy of `bytes` to or from HBM that runs beside compute.
Micros dma_time(std::int64_t bytes, const network::Profile& profile);

std::string_view priced_by_name(PricedBy by);

}  // namespace aoizora::simulate
