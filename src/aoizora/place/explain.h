#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "aoizora/place/search.h"

/// The same program on two placements, collective by collective (the paper's Figure 6).
namespace aoizora::place {

/// One collective on one placement; times in µs.
struct OnPlacement {
  double isolated = 0;   // one execution, alone on the slice
  double in_flight = 0;  // one execution in the replay, beside what else is in flight
  double exposed = 0;    // waiting it caused over the step
  std::string busiest;   // link that carries most of it, `0,0 -> 1,0`; empty: nothing crosses a link
};

struct ExplainedCollective {
  std::string name;  // of the instruction
  std::string kind;
  std::string groups;  // `4 groups of 4, first 0,4,8,12`
  double bytes = 0;
  std::int64_t executions = 0;
  OnPlacement first, second;
};

struct Explanation {
  Scored first, second;  // name, step and exposed time
  double compute = 0;    // µs, the same for both
  /// Those that differ most in exposed time first; ties in program order.
  std::vector<ExplainedCollective> collectives;
};

/// Replays the workload on both in event mode.
Explanation explain(const simulate::Workload& workload, const topology::Slice& slice,
                    const network::Profile& profile, const Scored& first, const Scored& second);

/// The placement a user names: `best`, `chosen`, `worst`, `default` (create_device_mesh, or default_split
/// where JAX refuses), or a baseline. UserError lists the names.
const Scored& placement_by_name(const Ranking& ranking, const std::string& name);

nlohmann::ordered_json explanation_json(const Explanation& explanation);
std::string explanation_text(const Explanation& explanation);

}  // namespace aoizora::place
