#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/workload.h"

/// Hand-made workloads for tests.
namespace aoizora::simulate {

using Ids = std::vector<std::int32_t>;

/// Links of 1 byte/µs without latency: times are bytes over the busiest link.
inline network::Profile plain_profile(std::string_view kind) {
  network::Profile profile = network::Profile::builtin(kind);
  profile.link_bandwidth = BytesPerMicro(1);
  profile.hop_latency = Micros(0);
  profile.launch = Micros(0);
  return profile;
}

inline network::Collective permute(std::initializer_list<std::pair<std::int32_t, std::int32_t>> pairs,
                                   std::int64_t bytes) {
  network::Collective made;
  made.kind = network::Kind::kPermute;
  made.bytes = Bytes(bytes);
  for (const auto& [source, target] : pairs) made.pairs.emplace_back(Partition(source), Partition(target));
  return made;
}

inline network::Collective grouped(network::Kind kind, const std::vector<Ids>& groups, std::int64_t bytes) {
  network::Collective made;
  made.kind = kind;
  made.bytes = Bytes(bytes);
  for (const Ids& ids : groups) {
    made.groups.emplace_back();
    for (const std::int32_t id : ids) made.groups.back().push_back(Partition(id));
  }
  return made;
}

inline Op compute(double micros) { return {Op::Kind::kCompute, Micros(micros), -1, 1, {}}; }
inline Op start(std::int32_t c) { return {Op::Kind::kStart, {}, c, 1, {}}; }
inline Op done(std::int32_t c) { return {Op::Kind::kDone, {}, c, 1, {}}; }
inline Op sync(std::int32_t c) { return {Op::Kind::kSync, {}, c, 1, {}}; }
inline Op loop(std::int32_t block, std::int64_t trips) { return {Op::Kind::kLoop, {}, block, trips, {}}; }
inline Op copy_start(std::int32_t i, double micros) {
  return {Op::Kind::kDmaStart, Micros(micros), i, 1, {}};
}
inline Op copy_done(std::int32_t i) { return {Op::Kind::kDmaDone, {}, i, 1, {}}; }

inline Workload workload(std::int64_t partitions, std::vector<network::Collective> collectives,
                         std::vector<std::vector<Op>> blocks) {
  Workload made;
  made.partitions = partitions;
  for (std::size_t c = 0; c < collectives.size(); ++c)
    made.collective_names.push_back("c" + std::to_string(c));
  made.collectives = std::move(collectives);
  for (auto& ops : blocks) made.blocks.push_back({"block", std::move(ops)});
  return made;
}

}  // namespace aoizora::simulate
