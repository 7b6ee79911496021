#include "aoizora/place/shapes.h"

#include <algorithm>

#include "aoizora/network/ring_order.h"

namespace aoizora::place {
namespace {

const char* const kIrregular = "irregular";

/// One group: `x2*y2@2`.
std::string group_shape(const topology::Slice& slice, const std::vector<Chip>& chips) {
  const auto grid = network::group_grid(slice, chips);
  if (!grid) return kIrregular;
  constexpr const char* kNames[] = {"x", "y", "z", "core", "slice"};
  std::string shape;
  for (std::size_t i = 0; i < grid->free.size(); ++i) {
    const std::size_t dim = grid->free[i];
    const std::vector<std::int32_t>& values = grid->values[dim];
    // A block that lies across a wrap goes down once.
    const std::int32_t size = dim < slice.dims().size() ? slice.dims()[dim] : 0;
    const auto gap = [&](std::size_t k) {
      const std::int32_t difference = values[k] - values[k - 1];
      return difference < 0 ? difference + size : difference;
    };
    for (std::size_t k = 2; k < values.size(); ++k) {
      if (gap(k) != gap(1)) return kIrregular;
    }
    shape += fmt::format("{}{}{}", i == 0 ? "" : "*", dim < 5 ? kNames[dim] : "?", values.size());
    if (gap(1) > 1) shape += fmt::format("@{}", gap(1));
  }
  return shape;
}

}  // namespace

std::string axis_shapes(const topology::Slice& slice, const LogicalMesh& mesh,
                        const topology::Placement& placement) {
  std::string text;
  std::size_t stride = placement.size();
  for (std::size_t axis = 0; axis < mesh.shape.size(); ++axis) {
    const auto size = static_cast<std::size_t>(mesh.shape[axis]);
    stride /= size;
    if (size < 2) continue;
    std::string common;
    for (std::size_t p = 0; p < placement.size(); ++p) {
      if (p / stride % size != 0) continue;
      std::vector<Chip> group;
      group.reserve(size);
      for (std::size_t i = 0; i < size; ++i) group.push_back(placement[p + i * stride]);
      const std::string shape = group_shape(slice, group);
      if (common.empty()) common = shape;
      if (shape == kIrregular) {
        common = shape;
        break;
      }
      if (shape != common) common = "mixed";
    }
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", mesh.axes[axis], common);
  }
  return text;
}

}  // namespace aoizora::place
