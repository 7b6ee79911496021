#pragma once

#include <string>

#include "aoizora/network/model.h"

namespace aoizora::network {

struct MeshAxis {
  std::string name;
  std::int32_t size = 1;
};

/// The collective `kind` over `axes` of a logical mesh (row-major): one group per combination of the other
/// axes' coordinates. A permute shifts by one along the axis, around. UserError for an unknown kind or axis,
/// or when the mesh does not have as many positions as `chips`.
Collective collective_over(const std::string& kind, const std::vector<MeshAxis>& mesh,
                           const std::vector<std::string>& axes, Bytes bytes, std::size_t chips);

/// `ring=given|reordered|compiled`, `routing=xy|yx|split`; UserError otherwise.
void set_assumption(Assumptions& assumptions, const std::string& name, const std::string& value);

/// Prices `concurrent` copies of a collective that begin together.
Cost concurrent_cost(const Model& model, const Collective& collective, const topology::Placement& placement,
                     std::int32_t concurrent);

/// `aoizora cost`. A JSON request
///   {"kind", "slice", "mesh": [[name, size], ...], "axes": [...], "bytes", "order": {"file", "text"} | null,
///    "concurrent", "assume": [[name, value], ...], "profile": {"file", "text"} | null, "strategy"}
/// to JSON `{"time_us", "bound_us", "busiest_link", "algorithm", ...}`, or the same as text. UserError.
std::string cost_service(const std::string& request, bool as_json);

}  // namespace aoizora::network
