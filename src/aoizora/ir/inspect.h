#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "aoizora/ir/program.h"

/// What `aoizora inspect` shows of a program.
namespace aoizora::ir {

/// How the ids of a collective lie: `4 x stride 1`, `2x2 x strides 4,1`, `all 16`, `1 device`, `irregular`; a
/// permute's is `rings of 4`, or `islands of 2` where the pairs do not close.
std::string group_pattern(const Collective& collective, std::int64_t devices);
/// Names of the mesh axes that the text groups by (`context, tensor`); empty where it gives ids.
std::string axis_names(const Collective& collective);
/// Sets of devices that the pairs of a permute connect, each in ascending order, by smallest member.
std::vector<std::vector<std::int64_t>> islands(const Collective& collective);

/// Keys as docs/inspect.md lists them; byte counts are per device and per execution, those under `totals`
/// times the executions.
nlohmann::ordered_json inspect_json(const Program& program);
/// One row per kind and pattern, most bytes first.
std::string inspect_text(const Program& program);

/// The text where it is UTF-8; else with `?` for every byte that is no ASCII: names in a dump may be
/// anything, a terminal and Python want UTF-8.
std::string as_utf8(std::string text);

}  // namespace aoizora::ir
