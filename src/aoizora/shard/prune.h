#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "aoizora/shard/cost.h"

namespace aoizora::shard {

struct Verdict {
  bool keep = false;
  std::string reason;  // why it was dropped, or its rank
};

/// Keeps the `survivors` cheapest by estimate that fit the chip's HBM; every other one gets the strongest
/// reason that holds: does not fit / its floor is above the best estimate / another is better in everything /
/// its rank. `ids` names the candidates in reasons. Verdicts stand in the order of `costs`; ties go to the
/// earlier one.
std::vector<Verdict> prune(const std::vector<Cost>& costs, const std::vector<std::string>& ids,
                           const network::Profile& profile, std::size_t survivors);

}  // namespace aoizora::shard
