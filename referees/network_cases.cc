#include "network_cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "aoizora/base/random.h"

namespace aoizora::referees {
namespace {

using network::Collective;
using network::Kind;
using topology::Slice;

// 8 to 64 devices; meshes, one wrapped ring, tori of three dimensions, two devices per chip.
const char* const kSlices[] = {"v5e:2x4",  "v5e:4x4",   "v5e:4x8",   "v6e:8x8",
                               "v6e:1x16", "v5p:2x2x4", "v5p:4x4x4", "v7x:2x2x2"};
constexpr Kind kKinds[] = {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce,
                           Kind::kAllToAll,  Kind::kPermute,       Kind::kBroadcast};

/// Groups of `size` partitions that lie `stride` apart: rows (stride 1), columns, blocks of the mesh.
Collective strided(Kind kind, std::int32_t chips, std::int32_t size, std::int32_t stride, Bytes bytes) {
  Collective made;
  made.kind = kind;
  made.bytes = bytes;
  for (std::int32_t first = 0; first < chips; ++first) {
    if (first / stride % size != 0) {
      continue;
    }
    std::vector<Partition> group;
    for (std::int32_t i = 0; i < size; ++i) {
      group.push_back(Partition(first + i * stride));
    }
    if (kind == Kind::kPermute) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        made.pairs.emplace_back(group[i], group[(i + 1) % group.size()]);
      }
    } else {
      made.groups.push_back(std::move(group));
    }
  }
  return made;
}

Bytes random_bytes(Random& random) {
  // 100 kB to 100 MB, even in the logarithm: from all latency to all bandwidth.
  constexpr std::int64_t kDecades[] = {100'000, 1'000'000, 10'000'000};
  return Bytes(kDecades[random.below(3)] * (1 + static_cast<std::int64_t>(random.below(10))));
}

std::string describe(const Collective& collective, std::int32_t size, std::int32_t stride) {
  return fmt::format("{} over {} by {} of {:.1f} MB", network::kind_name(collective.kind), size, stride,
                     static_cast<double>(collective.bytes.value) / 1e6);
}

struct Builder {
  Random random;
  std::vector<NetworkCase> cases;

  std::pair<Collective, std::string> any(Kind kind, const Slice& slice) {
    const auto chips = static_cast<std::int32_t>(slice.chips());
    const std::int32_t size = std::int32_t{2} << random.below(chips == 8 ? 3 : 4);
    std::int32_t stride = 1;
    while (stride * size * 2 <= chips && random.below(2) == 0) {
      stride *= 2;
    }
    Collective made = strided(kind, chips, size, stride, random_bytes(random));
    std::string text = describe(made, size, stride);
    return {std::move(made), std::move(text)};
  }

  void add(const char* name, std::string family, std::vector<Kind> kinds, bool shuffle) {
    const Slice slice = Slice::parse(name);
    NetworkCase made{name, std::move(family), {}, topology::row_major(slice), name};
    for (const Kind kind : kinds) {
      auto [collective, text] = any(kind, slice);
      made.collectives.push_back(std::move(collective));
      made.text += " | " + text;
    }
    if (shuffle) {
      random.shuffle(made.placement);
    }
    cases.push_back(std::move(made));
  }
};

}  // namespace

std::vector<NetworkCase> network_cases(std::uint64_t seed) {
  Builder builder{Random(seed), {}};
  for (const char* slice : kSlices) {
    for (const Kind kind : kKinds) {
      for (int i = 0; i < 3; ++i) {
        builder.add(slice, "isolated", {kind}, false);
      }
      for (int i = 0; i < 2; ++i) {
        builder.add(slice, "random groups", {kind}, true);
      }
      const Kind other = kKinds[builder.random.below(6)];
      builder.add(slice, "concurrent", {kind, other}, false);
      builder.add(slice, "concurrent", {kind, other, kKinds[builder.random.below(6)]}, true);
    }
  }
  return std::move(builder.cases);
}

}  // namespace aoizora::referees
