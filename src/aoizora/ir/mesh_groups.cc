#include "aoizora/ir/mesh_groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace aoizora::ir {
namespace {

/// A factor of an axis: `size` steps of `stride` positions.
struct Factor {
  std::int64_t size;
  std::int64_t stride;
};

/// Offsets of all row-major index combinations of the factors.
std::vector<std::int64_t> offsets(const std::vector<Factor>& factors) {
  std::vector<std::int64_t> result{0};
  for (const Factor& factor : factors) {
    std::vector<std::int64_t> next;
    next.reserve(result.size() * static_cast<std::size_t>(factor.size));
    for (const std::int64_t base : result) {
      for (std::int64_t i = 0; i < factor.size; ++i) next.push_back(base + i * factor.stride);
    }
    result.swap(next);
  }
  return result;
}

std::vector<AxisRef> refs_of_axis(const std::vector<AxisRef>& refs, std::size_t axis) {
  std::vector<AxisRef> found;
  std::copy_if(refs.begin(), refs.end(), std::back_inserter(found),
               [axis](const AxisRef& ref) { return ref.axis == axis; });
  std::sort(found.begin(), found.end(), [](const AxisRef& a, const AxisRef& b) { return a.pre < b.pre; });
  return found;
}

/// The parts of an axis that no reference names, major to minor.
void append_rest(std::vector<Factor>& rest, const std::vector<AxisRef>& refs, std::int64_t size,
                 std::int64_t axis_stride) {
  std::int64_t taken = 1;  // product of the parts before
  for (const AxisRef& ref : refs) {
    rest.push_back({ref.pre / taken, size / ref.pre * axis_stride});
    taken = ref.pre * ref.size;
  }
  rest.push_back({size / taken, axis_stride});
}

}  // namespace

std::int64_t DeviceMesh::positions() const {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes) product *= axis.size;
  return product;
}

std::ptrdiff_t find_axis(const DeviceMesh& mesh, std::string_view name) {
  const auto found = std::find_if(mesh.axes.begin(), mesh.axes.end(),
                                  [name](const MeshAxis& axis) { return axis.name == name; });
  return found == mesh.axes.end() ? -1 : found - mesh.axes.begin();
}

std::string check_axis_refs(const DeviceMesh& mesh, const std::vector<AxisRef>& refs) {
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    std::int64_t taken = 1;
    bool first = true;
    for (const AxisRef& ref : refs_of_axis(refs, i)) {
      const bool fits = ref.pre >= 1 && ref.size >= 1 && ref.pre <= axis.size && axis.size % ref.pre == 0 &&
                        axis.size / ref.pre % ref.size == 0;
      if (!fits) {
        return fmt::format("the sub-axis ({}){} does not divide axis '{}' of size {}", ref.pre, ref.size,
                           axis.name, axis.size);
      }
      if (!first && ref.pre < taken) return fmt::format("axis '{}' is named twice", axis.name);
      if (ref.pre % taken != 0) {
        return fmt::format("the sub-axes of axis '{}' do not fit together", axis.name);
      }
      // Two whole references to a size-1 axis do not overlap by their sizes, but are still a repetition.
      if (!first && ref.pre == 1) return fmt::format("axis '{}' is named twice", axis.name);
      taken = ref.pre * ref.size;
      first = false;
    }
  }
  return {};
}

ReplicaGroups::List expand_mesh_groups(const DeviceMesh& mesh, const std::vector<AxisRef>& refs) {
  std::vector<std::int64_t> axis_stride(mesh.axes.size());
  std::int64_t stride = 1;
  for (std::size_t i = mesh.axes.size(); i-- > 0;) {
    axis_stride[i] = stride;
    stride *= mesh.axes[i].size;
  }
  std::vector<Factor> inside;
  for (const AxisRef& ref : refs) {
    const std::int64_t after = mesh.axes[ref.axis].size / (ref.pre * ref.size);
    inside.push_back({ref.size, after * axis_stride[ref.axis]});
  }
  std::vector<Factor> rest;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    append_rest(rest, refs_of_axis(refs, i), mesh.axes[i].size, axis_stride[i]);
  }
  const std::vector<std::int64_t> members = offsets(inside);
  ReplicaGroups::List groups;
  for (const std::int64_t base : offsets(rest)) {
    std::vector<std::int64_t>& group = groups.emplace_back();
    group.reserve(members.size());
    for (const std::int64_t member : members) {
      const auto position = static_cast<std::size_t>(base + member);
      group.push_back(mesh.device_ids.empty() ? base + member : mesh.device_ids[position]);
    }
  }
  return groups;
}

}  // namespace aoizora::ir
