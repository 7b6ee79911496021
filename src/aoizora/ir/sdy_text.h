#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/ir/mesh_groups.h"
#include "aoizora/ir/program.h"

/// Shardy's attributes as printed (openxla.org/shardy/sdy_dialect).
namespace aoizora::ir {

/// `["x"=4, "y"=2]` with optional `, device_ids=[..]` inside `<..>`. Throws UserError{file, at} when a size
/// is not positive, a name repeats, or the product passes kMaxGroupIds.
DeviceMesh parse_sdy_mesh(std::string_view text, const std::string& file, Position at);

/// Every axis reference in the text, in order: `"x"`, `"x":(2)2` (Shardy), `name = "x", sub_axis_info = (2)2`
/// (StableHLO). Throws UserError{file, at} for an axis the mesh lacks.
std::vector<AxisRef> parse_axis_refs(std::string_view text, const DeviceMesh& mesh, const std::string& file,
                                     Position at);

/// `#sdy.sharding<@mesh, [{"x"}, {}]>`, or the first entry of a per-value list.
struct Sharding {
  std::string_view mesh;               // symbol's name; empty when the mesh is written in place
  std::string_view mesh_text;          // `["x"=4]..` then
  std::vector<std::string_view> dims;  // text between the braces, one per tensor dimension
};
/// Empty mesh and mesh_text when the text is no sharding.
Sharding parse_sharding(std::string_view text);

/// Product of the sizes of the references.
std::int64_t product_of(const std::vector<AxisRef>& refs);

/// Meshes of a module by symbol.
using Meshes = std::map<std::string_view, DeviceMesh, std::less<>>;

}  // namespace aoizora::ir
