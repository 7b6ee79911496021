#pragma once

#include <string>
#include <vector>

#include "torus.h"

namespace aoizora::testbed {

/// Starts a command on each host, in its network, with a host name and an /etc/hosts of its own, and a
/// /dev/null for its input. Inside a private world.
void start_hosts(std::size_t hosts, const std::vector<std::string>& command);

/// Plugs as standard input says, until it ends.
int serve_plugs(const Torus& torus);

}  // namespace aoizora::testbed
