#include "aoizora/place/automorphisms.h"

#include <algorithm>
#include <set>

#include "aoizora/place/group_costs.h"
#include "aoizora/topology/symmetry.h"

namespace aoizora::place {
namespace {

using Group = std::vector<std::int32_t>;

std::multiset<Group> canonical(const std::vector<Group>& groups, const std::vector<std::size_t>& map,
                               const GroupCosts& costs) {
  std::multiset<Group> result;
  for (Group group : groups) {
    for (std::int32_t& p : group) p = static_cast<std::int32_t>(map[static_cast<std::size_t>(p)]);
    if (costs.order_free()) {
      std::sort(group.begin(), group.end());
    } else if (costs.rotates()) {
      std::rotate(group.begin(), std::min_element(group.begin(), group.end()), group.end());
    }
    result.insert(std::move(group));
  }
  return result;
}

}  // namespace

std::vector<std::size_t> exchange(const LogicalMesh& mesh, std::size_t axis, std::int32_t i) {
  std::size_t stride = 1, positions = 1;
  for (std::size_t a = mesh.shape.size(); a-- > 0;) {
    if (a > axis) stride *= static_cast<std::size_t>(mesh.shape[a]);
    positions *= static_cast<std::size_t>(mesh.shape[a]);
  }
  const auto size = static_cast<std::size_t>(mesh.shape[axis]);
  std::vector<std::size_t> map(positions);
  for (std::size_t p = 0; p < positions; ++p) {
    const auto at = static_cast<std::int32_t>(p / stride % size);
    map[p] = at == i ? p + stride : at == i + 1 ? p - stride : p;
  }
  return map;
}

std::vector<bool> exchangeable_axes(const Problem& problem, const LogicalMesh& mesh) {
  std::vector<bool> exchangeable(mesh.shape.size(), true);
  std::vector<std::size_t> identity(problem.positions());
  for (std::size_t p = 0; p < identity.size(); ++p) identity[p] = p;
  for (const Structure& structure : problem.structures()) {
    const GroupCosts costs(problem.model(), structure);
    const auto groups = canonical(structure.groups, identity, costs);
    for (std::size_t axis = 0; axis < mesh.shape.size(); ++axis) {
      for (std::int32_t i = 0; exchangeable[axis] && i + 1 < mesh.shape[axis]; ++i) {
        exchangeable[axis] = canonical(structure.groups, exchange(mesh, axis, i), costs) == groups;
      }
    }
  }
  return exchangeable;
}

std::uint64_t least_signature(Evaluator& evaluator, const topology::Placement& placement,
                              const std::vector<std::vector<Chip>>& symmetries) {
  constexpr std::size_t kMost = 16;
  evaluator.assign(placement);
  std::uint64_t least = evaluator.signature();
  topology::Placement image(placement.size());
  for (std::size_t s = 0; s < std::min(symmetries.size(), kMost); ++s) {
    for (std::size_t p = 0; p < image.size(); ++p) image[p] = symmetries[s][placement[p].at()];
    evaluator.assign(image);
    least = std::min(least, evaluator.signature());
  }
  evaluator.assign(placement);
  return least;
}

std::vector<std::vector<Chip>> symmetry_maps(const network::Model& model) {
  std::vector<std::vector<Chip>> maps;
  for (topology::Symmetry& symmetry : topology::symmetries(model.slice(), model.router().rule())) {
    maps.push_back(std::move(symmetry.map));
  }
  return maps;
}

}  // namespace aoizora::place
