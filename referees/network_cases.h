#pragma once

#include <string>
#include <vector>

#include "aoizora/network/model.h"

/// Cases that the network model and a referee both price. The same list on every machine.
namespace aoizora::referees {

struct NetworkCase {
  std::string slice;
  std::string family;                            // `isolated`, `random groups`, `concurrent`
  std::vector<network::Collective> collectives;  // all begin at time 0
  topology::Placement placement;
  std::string text;
};

std::vector<NetworkCase> network_cases(std::uint64_t seed);

}  // namespace aoizora::referees
