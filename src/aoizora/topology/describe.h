#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "aoizora/topology/slice.h"

namespace aoizora::topology {

/// Directed links that cross the narrowest straight cut into halves (across the longest dimension that can be
/// halved; with wrap, both cuts). 0 for one chip and for custom graphs, where finding it is NP-hard.
std::size_t bisection_links(const Slice& slice);

/// What `aoizora topology` prints: chips, dims, wrap, hosts, directed links, bisection.
nlohmann::ordered_json topology_json(const Slice& slice);
/// The same for a person, with a drawing of each plane (`-` and `|` links, `~` wraparound).
std::string topology_text(const Slice& slice);

}  // namespace aoizora::topology
