#pragma once

#include <string>
#include <utility>
#include <vector>

#include "aoizora/base/random.h"
#include "aoizora/place/search.h"

/// Hand-made workloads for tests, benchmarks and referees.
namespace aoizora::place::testing {

using network::Kind;

inline LogicalMesh mesh_of(const std::vector<std::int32_t>& shape) {
  LogicalMesh mesh;
  mesh.shape = shape;
  for (std::size_t i = 0; i < shape.size(); ++i)
    mesh.axes.push_back(std::string(1, static_cast<char>('a' + i)));
  return mesh;
}

/// Groups of the positions that differ along one axis only.
inline std::vector<std::vector<Partition>> axis_groups(const LogicalMesh& mesh, std::size_t axis) {
  std::int32_t stride = 1, positions = 1;
  for (std::size_t a = mesh.shape.size(); a-- > 0;) {
    if (a > axis) stride *= mesh.shape[a];
    positions *= mesh.shape[a];
  }
  std::vector<std::vector<Partition>> groups;
  for (std::int32_t p = 0; p < positions; ++p) {
    if (p / stride % mesh.shape[axis] != 0) continue;
    groups.emplace_back();
    for (std::int32_t i = 0; i < mesh.shape[axis]; ++i) groups.back().emplace_back(p + i * stride);
  }
  return groups;
}

inline network::Collective over_axis(Kind kind, const LogicalMesh& mesh, std::size_t axis, std::int64_t bytes,
                                     std::optional<bool> reorders = true) {
  network::Collective collective;
  collective.kind = kind;
  collective.bytes = Bytes(bytes);
  collective.groups = axis_groups(mesh, axis);
  collective.hint.has_reordering_map = reorders;
  return collective;
}

inline network::Collective over_all(Kind kind, std::int32_t positions, std::int64_t bytes,
                                    std::optional<bool> reorders) {
  network::Collective collective;
  collective.kind = kind;
  collective.bytes = Bytes(bytes);
  collective.groups.emplace_back();
  for (std::int32_t p = 0; p < positions; ++p) collective.groups.back().emplace_back(p);
  collective.hint.has_reordering_map = reorders;
  return collective;
}

/// Each position sends to the next along the axis; `around`: the last to the first.
inline network::Collective shift(const LogicalMesh& mesh, std::size_t axis, std::int64_t bytes, bool around) {
  network::Collective collective;
  collective.kind = Kind::kPermute;
  collective.bytes = Bytes(bytes);
  for (const auto& group : axis_groups(mesh, axis)) {
    for (std::size_t i = 0; i + 1 < group.size(); ++i) collective.pairs.emplace_back(group[i], group[i + 1]);
    if (around) collective.pairs.emplace_back(group.back(), group.front());
  }
  return collective;
}

/// Builds a workload op by op.
class Builder {
 public:
  explicit Builder(std::int64_t partitions) {
    workload_.partitions = partitions;
    workload_.blocks.push_back({"entry", {}});
  }
  Builder& compute(double micros) {
    workload_.blocks[block_].ops.push_back({.kind = simulate::Op::Kind::kCompute,
                                            .duration = Micros(micros),
                                            .index = -1,
                                            .trips = 1,
                                            .source = {}});
    workload_.compute += Micros(micros * trips_);
    return *this;
  }
  std::int32_t add(network::Collective collective) {
    workload_.collectives.push_back(std::move(collective));
    workload_.collective_names.push_back("c" + std::to_string(workload_.collectives.size() - 1));
    return static_cast<std::int32_t>(workload_.collectives.size() - 1);
  }
  Builder& op(simulate::Op::Kind kind, std::int32_t index) {
    workload_.blocks[block_].ops.push_back(
        {.kind = kind, .duration = {}, .index = index, .trips = 1, .source = {}});
    return *this;
  }
  Builder& sync(network::Collective collective) {
    return op(simulate::Op::Kind::kSync, add(std::move(collective)));
  }
  std::int32_t start(network::Collective collective) {
    const std::int32_t index = add(std::move(collective));
    op(simulate::Op::Kind::kStart, index);
    return index;
  }
  Builder& done(std::int32_t index) { return op(simulate::Op::Kind::kDone, index); }
  /// What follows, until end_loop, is the body. One level.
  Builder& loop(std::int64_t trips) {
    workload_.blocks.push_back({"body", {}});
    workload_.blocks[block_].ops.push_back({.kind = simulate::Op::Kind::kLoop,
                                            .duration = {},
                                            .index = static_cast<std::int32_t>(workload_.blocks.size() - 1),
                                            .trips = trips,
                                            .source = {}});
    block_ = workload_.blocks.size() - 1;
    trips_ = static_cast<double>(trips);
    return *this;
  }
  Builder& end_loop() {
    block_ = 0;
    trips_ = 1;
    return *this;
  }
  const simulate::Workload& workload() const { return workload_; }

 private:
  simulate::Workload workload_;
  std::size_t block_ = 0;
  double trips_ = 1;
};

inline topology::Placement random_placement(std::size_t chips, Random& random) {
  topology::Placement placement;
  for (std::size_t c = 0; c < chips; ++c) placement.emplace_back(static_cast<std::int32_t>(c));
  random.shuffle(placement);
  return placement;
}

/// A random program over the axes of a mesh: loops, overlapping and synchronous collectives of every kind.
inline simulate::Workload random_workload(const LogicalMesh& mesh, Random& random) {
  std::int32_t positions = 1;
  for (const std::int32_t size : mesh.shape) positions *= size;
  Builder builder(positions);
  const auto collective = [&]() -> network::Collective {
    constexpr Kind kKinds[] = {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce, Kind::kAllToAll};
    const auto axis = static_cast<std::size_t>(random.below(static_cast<std::uint32_t>(mesh.shape.size())));
    const auto bytes = static_cast<std::int64_t>(1000 + random.below(20'000'000));
    const std::uint32_t choice = random.below(8);
    if (choice == 0) return shift(mesh, axis, bytes, true);
    if (choice == 1) return shift(mesh, axis, bytes, false);
    std::optional<bool> reorders;
    const std::uint32_t hint = random.below(3);
    if (hint < 2) reorders = hint == 0;
    const Kind kind = kKinds[random.below(4)];
    if (choice == 2) return over_all(kind, positions, bytes, reorders);
    return over_axis(kind, mesh, axis, bytes, reorders);
  };
  const auto section = [&] {
    std::vector<std::int32_t> open;
    const std::uint32_t ops = 2 + random.below(6);
    for (std::uint32_t i = 0; i < ops; ++i) {
      builder.compute(random.unit() * 200);
      if (random.below(3) == 0) {
        builder.sync(collective());
      } else {
        open.push_back(builder.start(collective()));
      }
      if (!open.empty() && random.below(2) == 0) {
        builder.done(open.front());
        open.erase(open.begin());
      }
    }
    builder.compute(random.unit() * 100);
    for (const std::int32_t index : open) builder.done(index);
  };
  section();
  builder.loop(1 + random.below(9));
  section();
  builder.end_loop();
  if (random.below(2) == 0) section();
  return builder.workload();
}

}  // namespace aoizora::place::testing
