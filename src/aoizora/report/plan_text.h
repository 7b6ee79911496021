#pragma once

#include <string>

#include "aoizora/plan/plan.h"

namespace aoizora::report {

struct TextOptions {
  bool colour = false;
  /// How many candidates the table shows; the plan file has all.
  std::size_t candidates = 12;
  /// Worker memory and every stage.
  bool verbose = false;
};

/// A plan as a person reads it in a terminal: the winner, its step time, what else was looked at, and how to
/// run it.
std::string plan_text(const plan::Plan& plan, const TextOptions& options);

/// The slice drawn from above, one cell a chip, with the logical coordinates it holds (`0,3,1` in axis
/// order). Slices with z > 1 are drawn layer by layer.
std::string placement_drawing(const plan::Plan& plan);

}  // namespace aoizora::report
