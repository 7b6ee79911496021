#pragma once

#include <string>
#include <vector>

#include "aoizora/enumerate/candidate.h"

namespace aoizora::enumerate {

/// A sharding that people choose by habit, by name: what a plan is compared with.
struct Habit {
  std::string name;  // `cfg_parallel`
  std::string what;  // for people: `guidance halves apart, the rest on the sequence`
  std::int64_t data = 1;
  std::int64_t context = 1;
  std::int64_t tensor = 1;
  std::string attention;  // the strategy; it says nothing where context is 1
};

/// The habits on that many chips, in the order in which a report shows them. Names and meshes: MaxDiffusion's
/// Wan configuration (all chips on `context`) and README (dp2 x context for guidance), DeepSpeed-Ulysses
/// (arXiv 2309.14509), Ring Attention (arXiv 2310.01889), Megatron-LM (arXiv 1909.08053).
std::vector<Habit> habits(std::int64_t chips);

/// Whether the candidate is the habit: same mesh, same attention, weights whole on every chip of `context`.
bool is_habit(const Candidate& candidate, const Habit& habit);

}  // namespace aoizora::enumerate
