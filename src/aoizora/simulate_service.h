#pragma once

#include <string>

namespace aoizora {

/// `aoizora simulate` behind one call: JSON in, JSON out.
///
/// Request: {"path": FILE, "slice": S, "order": "row-major" | "create_device_mesh" | {"file", "text"},
///   "mesh": [["a", 4], ..] | null, "assume": {"ring": .., "routing": .., "flash": ..}, "mode": "event" |
///   "lock-step", "profile": {"file", "text"} | null, "trace": FILE | null}.
/// An order file is JSON: a list of chip coordinates by mesh position, or an object that holds one as
/// `device_coords` (a plan), `coords`, or `best` (what `aoizora rank --json` prints).
/// Answer: {"result": what --json prints, "text": for people}.
/// UserError on bad input.
std::string simulate_service(const std::string& request);

}  // namespace aoizora
