#include "aoizora/simulate/structures.h"

#include <algorithm>

namespace aoizora::simulate {
namespace {

/// Equal but for the bytes.
bool same(const network::Collective& a, const network::Collective& b) {
  return a.kind == b.kind && a.groups == b.groups && a.pairs == b.pairs && a.hint == b.hint &&
         a.ragged == b.ragged;
}

}  // namespace

Structures::Structures(const Workload& workload) {
  for (const network::Collective& collective : workload.collectives) {
    const auto known = std::find_if(wholes.begin(), wholes.end(), [&](const network::Collective& whole) {
      return same(whole, collective);
    });
    of.push_back(static_cast<std::size_t>(known - wholes.begin()));
    if (known != wholes.end()) continue;
    wholes.push_back(collective);
    if (collective.ragged.empty()) wholes.back().bytes = Bytes(kUnitBytes);
  }
}

double Structures::scale(const Workload& workload, std::size_t collective) const {
  const network::Collective& wanted = workload.collectives[collective];
  return wanted.ragged.empty() ? static_cast<double>(wanted.bytes.value) / static_cast<double>(kUnitBytes)
                               : 1.0;
}

std::vector<network::Collective> split(const network::Collective& whole) {
  std::vector<network::Collective> parts;
  network::Collective part = whole;
  part.groups.clear();
  part.pairs.clear();
  for (const auto& group : whole.groups) {
    part.groups = {group};
    parts.push_back(part);
  }
  part.groups.clear();
  for (const auto& pair : whole.pairs) {
    part.pairs = {pair};
    parts.push_back(part);
  }
  return parts;
}

std::vector<std::int32_t> members_of(const network::Collective& collective) {
  std::vector<std::int32_t> devices;
  for (const auto& group : collective.groups) {
    for (const Partition p : group) devices.push_back(p.value);
  }
  for (const auto& [source, target] : collective.pairs)
    devices.insert(devices.end(), {source.value, target.value});
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

}  // namespace aoizora::simulate
