#pragma once

#include <functional>
#include <string>
#include <vector>

/// A place on this machine where network set-up can do no harm and leaves nothing behind.
namespace aoizora::testbed {

/// Why a private world can't be made here; empty: it can. Tries it in a child process.
std::string why_no_private_world();

/// Runs `body` as process 1 of new network, mount, process, host-name and IPC namespaces, and returns what it
/// returns (128 + signal when it was killed). The caller's process leaves its network and mounts for good, so
/// a program calls this once. When the caller dies, by SIGKILL too, the kernel kills process 1, with it every
/// process inside, and with the last of them the interfaces, routes and queues go: nothing is cleaned up by
/// code of ours that could fail to run. UserError when the kernel refuses.
int in_private_world(const std::function<int()>& body);

/// Leaves the networks that the caller has made for an empty one; inside a private world.
void enter_fresh_network();

/// Moves the calling process into the network namespace that `ip netns add NAME` made.
void enter_network(const std::string& name);

/// Runs a program to its end with `input` as its standard input. InternalError with what it printed when it
/// fails: what we feed to ip and tc is ours.
void feed(const std::vector<std::string>& command, const std::string& input);

}  // namespace aoizora::testbed
