#pragma once

#include <string>
#include <vector>

#include "aoizora/base/json.h"
#include "aoizora/simulate/replay.h"

namespace aoizora::simulate {

/// What a replay was of.
struct Described {
  std::string program;  // file
  std::string order;
  Mode mode = Mode::kEvent;
  std::vector<std::string> warnings;  // of the reader; the workload's are added
  Micros bound;
};

/// Times in µs. Links: those that carry anything, the busiest first. Collectives: most waiting first.
Json step_json(const StepTime& time, const Workload& workload, const network::Model& model,
               const Described& described);
/// The same for people: the sums, what is waited for, the busiest links, what is assumed.
std::string step_text(const StepTime& time, const Workload& workload, const network::Model& model,
                      const Described& described);

std::string_view mode_name(Mode mode);

}  // namespace aoizora::simulate
