#include <algorithm>
#include <set>

#include "aoizora/base/error.h"
#include "aoizora/place/search.h"

namespace aoizora::place {

using network::Assumptions;

std::vector<Assumptions> all_assumptions() {
  using Ring = Assumptions::Ring;
  using Routing = Assumptions::Routing;
  return {{},
          {Ring::kGiven, Routing::kDimensionOrderXY},
          {Ring::kReordered, Routing::kDimensionOrderXY},
          {Ring::kAsCompiled, Routing::kDimensionOrderYX},
          {Ring::kAsCompiled, Routing::kSplitTies}};
}

std::string assumption_name(const Assumptions& assumptions) {
  const char* ring = "as compiled";
  if (assumptions.ring == Assumptions::Ring::kGiven) ring = "as given";
  if (assumptions.ring == Assumptions::Ring::kReordered) ring = "re-ordered";
  const char* routing = "XY";
  if (assumptions.routing == Assumptions::Routing::kDimensionOrderYX) routing = "YX";
  if (assumptions.routing == Assumptions::Routing::kSplitTies) routing = "XY, ties split";
  return fmt::format("rings {}, routes {}", ring, routing);
}

LogicalMesh infer_mesh(const simulate::Workload& workload) {
  // Positions where the stride of a group that holds partition 0 begins and ends are borders between axes:
  // {0,4,8,12} of 16 has stride 4 and ends at 16, {0,1,4,5} has 1..2 and 4..8.
  std::set<std::int64_t> borders = {1, workload.partitions};
  for (const network::Collective& collective : workload.collectives) {
    for (const auto& group : collective.groups) {
      std::vector<std::int64_t> members;
      for (const Partition p : group) members.push_back(p.value);
      std::sort(members.begin(), members.end());
      if (members.size() < 2 || members.front() != 0) continue;
      for (std::size_t block = 1; block < members.size();) {
        const std::int64_t stride = members[block];
        std::size_t count = 1;
        while (count * block < members.size() &&
               members[count * block] == static_cast<std::int64_t>(count) * stride) {
          ++count;
        }
        borders.insert(stride);
        borders.insert(stride * static_cast<std::int64_t>(count));
        block *= count;
      }
    }
  }
  LogicalMesh mesh;
  std::int64_t previous = 1;
  std::vector<std::int64_t> chain;
  for (const std::int64_t border : borders) {
    if (border % previous != 0 || workload.partitions % border != 0) continue;
    if (border > previous) chain.push_back(border / previous);
    previous = border;
  }
  for (std::size_t i = chain.size(); i-- > 0;) {
    mesh.axes.push_back(fmt::format("axis{}", chain.size() - 1 - i));
    mesh.shape.push_back(static_cast<std::int32_t>(chain[i]));
  }
  if (mesh.shape.empty()) mesh = {{"axis0"}, {static_cast<std::int32_t>(workload.partitions)}};
  return mesh;
}

}  // namespace aoizora::place
