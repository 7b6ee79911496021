#pragma once

#include <string>

#include "aoizora/place/search.h"

/// The orders people use today, as placements to compare with.
namespace aoizora::place {

/// What `create_device_mesh(..., allow_split_physical_axes=True)` gives: JAX's order on any mesh shape.
/// UserError when the mesh does not have as many positions as the slice has chips.
topology::Placement default_split(const topology::Slice& slice, const LogicalMesh& mesh);

/// Number of positions of a mesh. UserError on a size below 1 or on names that do not match the shape.
std::int64_t mesh_size(const LogicalMesh& mesh);

/// `data=2,context=4` for people.
std::string mesh_text(const LogicalMesh& mesh);

}  // namespace aoizora::place
