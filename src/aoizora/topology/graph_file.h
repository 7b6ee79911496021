#pragma once

#include <string>
#include <string_view>

#include "aoizora/topology/slice.h"

/// Topologies that are not a slice of the table: a cluster with known links, or a slice with a slow link.
namespace aoizora::topology {

/// Reads JSON, either a whole graph,
///   {"name": "lab", "nodes": 4, "links": [{"from": 0, "to": 1, "bandwidth_gbps": 45, "latency_us": 1}, ...]}
/// where a link goes both ways unless it says `"one_way": true`, and bandwidth and latency that are left out
/// are the profile's; or a slice with changed links,
///   {"slice": "v5e:4x4", "links": [{"from": [0, 0], "to": [1, 0], "bandwidth_gbps": 20}]}
/// whose routes stay as they are. UserError names the file and what is wrong.
Slice parse_graph(std::string_view json_text, const std::string& file);

/// A slice by name (`v5e:4x4`), or a graph from a file whose name ends in `.json`.
Slice load_slice(const std::string& name_or_file);

/// A placement from a text: a JSON list of coordinates by mesh position, `[[0, 0], [1, 0], ...]`, or an
/// object with that list under `coords` or `coordinates` (what `aoizora rank --json` prints under `best`).
Placement parse_order(const Slice& slice, std::string_view json_text, const std::string& file);

}  // namespace aoizora::topology
