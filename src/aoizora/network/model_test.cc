#include "aoizora/network/model.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "aoizora/base/error.h"
#include "aoizora/network/bound_evaluator.h"
#include "aoizora/network/ring_order.h"

namespace aoizora::network {
namespace {

using topology::Placement;
using topology::row_major;
using topology::Slice;

constexpr std::int64_t kBytes = 48'000'000;

/// 1 byte/µs links, no latency: times are bytes over the busiest link.
Profile plain_profile(std::string_view kind) {
  Profile profile = Profile::builtin(kind);
  profile.link_bandwidth = BytesPerMicro(1);
  profile.hop_latency = Micros(0);
  profile.launch = Micros(0);
  return profile;
}

std::vector<Partition> partitions(const std::vector<std::int32_t>& ids) {
  std::vector<Partition> group;
  for (const std::int32_t id : ids) {
    group.push_back(Partition(id));
  }
  return group;
}

Collective collective(Kind kind, const std::vector<std::vector<std::int32_t>>& groups,
                      std::int64_t bytes = kBytes) {
  Collective made;
  made.kind = kind;
  made.bytes = Bytes(bytes);
  for (const auto& group : groups) {
    made.groups.push_back(partitions(group));
  }
  return made;
}

std::vector<std::int32_t> iota(std::int32_t n, std::int32_t stride = 1) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < n; ++i) {
    ids.push_back(i * stride);
  }
  return ids;
}

double time_on(std::string_view slice_name, const Collective& what, Assumptions assumptions = {}) {
  const Slice slice = Slice::parse(slice_name);
  const Model model(slice, plain_profile(slice.kind()), assumptions);
  const Cost cost = model.cost(what, row_major(slice));
  EXPECT_LE(cost.bound, cost.time);
  EXPECT_NEAR(model.bound(what, row_major(slice)).value, cost.bound.value, 1e-9 * cost.bound.value);
  BoundEvaluator evaluator(model, std::span(&what, 1));
  EXPECT_NEAR(evaluator.bound(0, row_major(slice)).value, cost.bound.value, 1e-9 * cost.bound.value);
  return cost.time.value;
}

// Ring with wrap, two directions: each edge carries half of (n-1)/n of the array in each direction.
TEST(Model, RingAllGather) {
  EXPECT_NEAR(time_on("v6e:1x16", collective(Kind::kAllGather, {iota(16)})), kBytes * 15.0 / 16 / 2, 1);
  EXPECT_NEAR(time_on("v6e:1x16", collective(Kind::kReduceScatter, {iota(16)})), kBytes * 15.0 / 16 / 2, 1);
  EXPECT_NEAR(time_on("v6e:1x16", collective(Kind::kAllReduce, {iota(16)})), kBytes * 15.0 / 16, 1);
}

// Line of 4, no wrap (scaling book, quiz 2 of `sharding.md`): (X-1)/X * V/w.
//   0 > 1 > 2 > 3  and the closing edge back over all three
TEST(Model, LineAllGather) {
  EXPECT_NEAR(time_on("v5e:1x4", collective(Kind::kAllGather, {iota(4)})), kBytes * 3.0 / 4, 1);
}

// Four rows of 4x4 at once are four lines; they share nothing.
TEST(Model, RowsAtOnceCostAsOne) {
  const auto rows =
      collective(Kind::kAllGather, {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}});
  EXPECT_NEAR(time_on("v5e:4x4", rows), kBytes * 3.0 / 4, 1);
}

// A 2x2 block is a ring of neighbours: twice as fast as a row.
//   4 5
//   0 1
TEST(Model, BlockIsARing) {
  const auto block = collective(Kind::kAllGather, {{0, 1, 4, 5}});
  EXPECT_NEAR(time_on("v5e:4x4", block), kBytes * 3.0 / 4 / 2, 1);
  // In the group's order the ring goes 0 1 4 5: 1>4 over 0 (x first), 5>0 over 4. Forward: 0>1, 1>0>4, 4>5,
  // 5>4>0; backward 1>0, 4>5>1, 5>4, 0>1>5. Link 0>1 has forward 0>1 and backward 0>1>5; 2 halves: as slow
  // as a row.
  EXPECT_NEAR(time_on("v5e:4x4", block, {.ring = Assumptions::Ring::kGiven}), kBytes * 3.0 / 4, 1);
}

// 2x4 block: neighbour cycle of 8, V * 7/8 / 2.
TEST(Model, LongBlockIsARing) {
  EXPECT_NEAR(time_on("v5e:2x4", collective(Kind::kAllGather, {iota(8)})), kBytes * 7.0 / 8 / 2, 1);
}

// 16x16 torus, all chips, both axes: V / (4 w) * 255/256 (scaling book: V / (n W) over n axes).
TEST(Model, TwoDimensionalRing) {
  EXPECT_NEAR(time_on("v6e:16x16", collective(Kind::kAllGather, {iota(256)})), kBytes * 255.0 / 256 / 4, 1);
  EXPECT_NEAR(time_on("v6e:16x16", collective(Kind::kAllReduce, {iota(256)})), kBytes * 255.0 / 256 / 2, 1);
}

// 4x4x4 torus, three axes: V / (6 w) * 63/64.
TEST(Model, ThreeDimensionalRing) {
  EXPECT_NEAR(time_on("v5p:4x4x4", collective(Kind::kAllGather, {iota(64)})), kBytes * 63.0 / 64 / 6, 1);
}

// All-to-all on a ring of n: each directed link carries n*n/8 flows of V/n^2: V/(8w) = V/(4W). Per-device
// buffer b = V/n. With ties going one way the positive links carry more: sum of 1..8 against 1..7.
TEST(Model, RingAllToAll) {
  const auto all = collective(Kind::kAllToAll, {iota(16)});
  EXPECT_NEAR(time_on("v6e:1x16", all, {.routing = Assumptions::Routing::kSplitTies}), 16.0 * kBytes / 8, 1);
  EXPECT_NEAR(time_on("v6e:1x16", all), kBytes / 16.0 * 36, 1);
}

// Two pairs cross the cut between column 1 and 2 on the same link; a third does not.
//   0 -> 2 and 1 -> 3 share 1>2.
TEST(Model, PermuteAcrossACut) {
  Collective permute;
  permute.kind = Kind::kPermute;
  permute.bytes = Bytes(kBytes);
  permute.pairs = {{Partition(0), Partition(2)}, {Partition(1), Partition(3)}, {Partition(3), Partition(3)}};
  EXPECT_NEAR(time_on("v5e:4x4", permute), 2.0 * kBytes, 1);
}

// Unequal groups at once: rates are shared anew when one ends. Permutes of 0>2 (all bytes) and a broadcast
// from 1 to 2 share link 1>2 until both are through: 2 V / w.
TEST(Model, GroupsShareLinks) {
  Collective broadcast = collective(Kind::kBroadcast, {{0, 2}, {1, 3}});
  EXPECT_NEAR(time_on("v5e:1x4", broadcast), 2.0 * kBytes, 1);
}

TEST(Model, GroupOfOneCostsNothing) {
  EXPECT_EQ(time_on("v5e:2x2", collective(Kind::kAllReduce, {{0}, {1}, {2}, {3}})), 0);
}

TEST(Model, RaggedAllToAll) {
  Collective ragged = collective(Kind::kAllToAll, {{0, 1}});
  ragged.ragged = {Bytes(0), Bytes(100), Bytes(300), Bytes(0)};
  EXPECT_NEAR(time_on("v5e:1x2", ragged), 300, 1e-9);
  ragged.ragged.pop_back();
  EXPECT_THROW(time_on("v5e:1x2", ragged), UserError);
}

// Point B of facts/tpu.md is on such a line: 3 launches, and a chain of 3 sends of which one is the closing
// edge of 3 hops: 5 hops.
TEST(Model, LatencyOfALine) {
  const Slice slice = Slice::parse("v5e:1x4");
  Profile profile = plain_profile("v5e");
  profile.launch = Micros(10);
  profile.hop_latency = Micros(1);
  const Model model(slice, profile);
  EXPECT_NEAR(model.cost(collective(Kind::kAllGather, {iota(4)}, 0), row_major(slice)).time.value, 35, 1e-9);
}

TEST(Model, RejectsAPartitionOutside) {
  EXPECT_THROW(time_on("v5e:2x2", collective(Kind::kAllGather, {{0, 4}})), UserError);
}

TEST(Profile, BuiltInForEveryKind) {
  for (const char* kind : {"v4", "v5e", "v5p", "v6e", "v7x"}) {
    const Profile profile = Profile::builtin(kind);
    EXPECT_EQ(Profile::parse(profile.to_json(), "again").to_json(), profile.to_json());
  }
  EXPECT_THROW(Profile::builtin("v9"), UserError);
}

TEST(MaxMin, TextbookExample) {
  // Bertsekas & Gallager 6.5.2: two links of 1; flow A over both, B and C over the first, D over the second.
  // First link: 1/3 each. Then D takes what A leaves: 2/3.
  const std::vector<double> capacity{1, 1};
  const std::vector<std::vector<std::pair<Link, double>>> routes{
      {{Link(0), 1}, {Link(1), 1}}, {{Link(0), 1}}, {{Link(0), 1}}, {{Link(1), 1}}};
  const std::vector<double> rates = max_min_rates(capacity, routes);
  EXPECT_DOUBLE_EQ(rates[0], 1.0 / 3);
  EXPECT_DOUBLE_EQ(rates[2], 1.0 / 3);
  EXPECT_DOUBLE_EQ(rates[3], 2.0 / 3);
}

TEST(RingOrder, NeighbourCycles) {
  const Slice slice = Slice::parse("v5e:4x4");
  const topology::Router router(slice);
  for (const std::vector<std::int32_t>& ids :
       {std::vector<std::int32_t>{0, 1, 4, 5}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 4, 5, 6}, iota(16)}) {
    std::vector<Chip> chips;
    for (const std::int32_t id : ids) {
      chips.push_back(Chip(id));
    }
    const std::vector<Chip> order = ring_order(router, chips);
    ASSERT_EQ(order.size(), chips.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(router.hops(order[i], order[(i + 1) % order.size()]), 1);
    }
    EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), chips.begin()));
  }
}

}  // namespace
}  // namespace aoizora::network
