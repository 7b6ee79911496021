#pragma once

#include <string>

/// `aoizora rank` behind one call: JSON in, JSON out.
namespace aoizora::place {

/// Request: {"path": FILE, "slice": S, "mesh": [["a", 4], ...] | null, "profile": {"file", "text"} | null,
///   "seed": n, "evaluations": n, "budget_s": x | null, "replayed": n, "top": n, "workers": n,
///   "assume": "all" | "default"}.
/// Answer: {"ranking": as ranking_json, "program": what was read and what was assumed about it,
///   "seconds": per stage, "text": for people}. Bit-identical but for `seconds` when budget_s is null.
/// UserError on bad input; Ctrl-C ends the search with the best so far.
std::string rank_service(const std::string& request);

}  // namespace aoizora::place
