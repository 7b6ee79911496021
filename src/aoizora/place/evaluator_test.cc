#include "aoizora/place/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aoizora/place/automorphisms.h"
#include "aoizora/place/families.h"
#include "aoizora/place/lower_bound.h"
#include "aoizora/place/synthetic_testing.h"
#include "aoizora/topology/symmetry.h"

namespace aoizora::place {
namespace {

using namespace testing;  // NOLINT: the helpers of synthetic_testing.h
using topology::Placement;
using topology::Slice;

struct World {
  World(const char* slice_name, simulate::Workload w, network::Assumptions assumptions = {})
      : slice(Slice::parse(slice_name)),
        profile(network::Profile::builtin(slice.kind())),
        model(slice, profile, assumptions),
        workload(std::move(w)),
        problem(workload, model) {}
  Slice slice;
  network::Profile profile;
  network::Model model;
  simulate::Workload workload;
  Problem problem;
};

double score_of(const Problem& problem, const Placement& placement) {
  Evaluator evaluator(problem);
  evaluator.assign(placement);
  return evaluator.score();
}

// A loop of 10: 100 us of compute, then an all-gather of 3 MB over rows of 4 that nothing hides.
//   on a row of 4x4: 3/4 of 3 MB over a line = 2.25e6 / 42750 = 52.63 us; 3 steps of launch; the longest
//   chain of 3 successive ring edges on 0-1-2-3-0 crosses the closing edge: 1+1+3 hops = 5 us.
TEST(Evaluator, HandCalculationOfALoop) {
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder builder(16);
  builder.compute(7).loop(10).compute(100).sync(over_axis(Kind::kAllGather, mesh, 1, 3'000'000)).end_loop();
  const World world("v5e:4x4", builder.workload());
  const double step = score_of(world.problem, topology::row_major(world.slice));
  EXPECT_NEAR(step, 7 + 10 * (100 + 2.25e6 / 42750 + 3 * 0.25 + 5), 1e-6);
}

// Started before 50 us of compute: 50 us of it are hidden.
TEST(Evaluator, HidesWhatComputeCovers) {
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder sync(16), async(16);
  sync.sync(over_axis(Kind::kAllGather, mesh, 1, 3'000'000)).compute(50);
  const std::int32_t gather = async.start(over_axis(Kind::kAllGather, mesh, 1, 3'000'000));
  async.compute(50).done(gather);
  const World a("v5e:4x4", sync.workload());
  const World b("v5e:4x4", async.workload());
  const Placement rows = topology::row_major(a.slice);
  EXPECT_NEAR(score_of(a.problem, rows) - score_of(b.problem, rows), 50, 1e-9);
}

// Two shifts in flight at once. Rows and columns use different links: no slower than one. Both along the
// same axis: the links carry both.
TEST(Evaluator, WindowsAddWhatSharesALink) {
  const LogicalMesh mesh = mesh_of({4, 4});
  const auto both = [&](std::size_t first, std::size_t second) {
    Builder builder(16);
    const std::int32_t a = builder.start(shift(mesh, first, 4'275'000, false));
    const std::int32_t b = builder.start(shift(mesh, second, 4'275'000, false));
    builder.done(a).done(b);
    const World world("v5e:4x4", builder.workload());
    return score_of(world.problem, topology::row_major(world.slice));
  };
  EXPECT_NEAR(both(0, 1), 100 + 1.25, 1e-6);  // 4.275 MB / 42750 B/us, one hop and one launch
  EXPECT_NEAR(both(1, 1), 200, 1e-6);         // a bound: bytes only
}

TEST(Evaluator, CollectiveTimesAreTheModelsFastBounds) {
  Random random(1);
  for (const char* name : {"v5e:2x4", "v5e:4x4", "v5p:2x2x4", "v7x:2x2x2", "v5e:16x16"}) {
    const Slice slice = Slice::parse(name);
    const LogicalMesh mesh = mesh_of({static_cast<std::int32_t>(slice.chips()) / 4, 4});
    for (const network::Assumptions& assumptions : all_assumptions()) {
      const World world(name, random_workload(mesh, random), assumptions);
      Evaluator evaluator(world.problem);
      for (int i = 0; i < 3; ++i) {
        const Placement placement =
            i == 0 ? topology::row_major(slice) : random_placement(slice.chips(), random);
        evaluator.assign(placement);
        const auto times = evaluator.transfer_times();
        for (std::size_t c = 0; c < times.size(); ++c) {
          const double bound = world.model.bound(world.workload.collectives[c], placement).value;
          EXPECT_NEAR(times[c], bound, 1e-9 * bound + 1e-12) << name << " collective " << c;
        }
      }
    }
  }
}

TEST(Evaluator, SwapsLeaveNoTrace) {
  Random random(2);
  const Slice slice = Slice::parse("v5e:4x4");
  for (int round = 0; round < 20; ++round) {
    const LogicalMesh mesh = mesh_of({2, 2, 4});
    const World world("v5e:4x4", random_workload(mesh, random));
    Evaluator swapped(world.problem), fresh(world.problem);
    swapped.assign(random_placement(16, random));
    for (int i = 0; i < 200; ++i) swapped.swap(random.below(16), random.below(16));
    fresh.assign(swapped.placement());
    EXPECT_EQ(swapped.score(), fresh.score());  // bit for bit
    EXPECT_EQ(swapped.floor(), fresh.floor());
    EXPECT_EQ(swapped.volume(), fresh.volume());
    EXPECT_EQ(swapped.signature(), fresh.signature());
  }
}

TEST(Evaluator, SignatureIsEqualForSlabExchanges) {
  // With re-ordered rings only the sets matter: columns in another order, rows in another order.
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder builder(16);
  builder.sync(over_axis(Kind::kAllGather, mesh, 0, 1000)).sync(over_axis(Kind::kAllToAll, mesh, 1, 1000));
  const World world("v5e:4x4", builder.workload());
  EXPECT_EQ(exchangeable_axes(world.problem, mesh), (std::vector<bool>{true, true}));
  Evaluator evaluator(world.problem);
  Placement placement = topology::row_major(world.slice);
  evaluator.assign(placement);
  const std::uint64_t before = evaluator.signature();
  const std::vector<std::size_t> map = exchange(mesh, 1, 1);
  Placement exchanged(16);
  for (std::size_t p = 0; p < 16; ++p) exchanged[map[p]] = placement[p];
  EXPECT_NE(exchanged, placement);
  evaluator.assign(exchanged);
  EXPECT_EQ(evaluator.signature(), before);
  evaluator.swap(0, 5);
  EXPECT_NE(evaluator.signature(), before);
}

TEST(Automorphisms, OrderedRingsMayOnlyTurn) {
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder builder(16);
  builder.sync(over_axis(Kind::kAllGather, mesh, 1, 1000, false));
  const World world("v5e:4x4", builder.workload());
  // Whole rings may trade places (axis a); members of a ring may not (axis b).
  EXPECT_EQ(exchangeable_axes(world.problem, mesh), (std::vector<bool>{true, false}));
}

TEST(Problem, RefusesPartitionsThatAreNotThere) {
  Builder builder(16);
  builder.sync(over_all(Kind::kAllGather, 17, 1000, true));
  EXPECT_THROW(World("v5e:4x4", builder.workload()), UserError);
  Builder twice(16);
  network::Collective collective;
  collective.groups = {{Partition(1), Partition(1)}};
  twice.sync(collective);
  EXPECT_THROW(World("v5e:4x4", twice.workload()), UserError);
}

TEST(LowerBound, IsWhatARingNeeds) {
  // All-gather of 8 MB over all 16 chips in the group's order: every edge carries 15/16 of 4 MB each way.
  const LogicalMesh mesh = mesh_of({16});
  Builder builder(16);
  builder.sync(over_all(Kind::kAllGather, 16, 8'000'000, false));
  const World world("v5e:4x4", builder.workload());
  const LowerBound bound(world.problem);
  EXPECT_NEAR(bound.step(), 15.0 / 16 * 4e6 / 42750 + 15 * (0.25 + 1), 1e-6);
  EXPECT_EQ(bound.structures()[0].why, "ring");
}

TEST(LowerBound, SetsOfFourThatExchange) {
  // All-to-all in groups of 4 on 4x4: the argument of the senders (3/4 over 4 links) is weak; trying all 1820
  // sets finds what a 2x2 block or any other set needs at least.
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder builder(16);
  builder.sync(over_axis(Kind::kAllToAll, mesh, 1, 4'000'000));
  const World world("v5e:4x4", builder.workload());
  const LowerBound bound(world.problem);
  EXPECT_EQ(bound.structures()[0].why, "set");
  EXPECT_GT(bound.structures()[0].alone, 0.75 / 4 / 42750);
  double best = 1e300;
  network::Collective one = world.workload.collectives[0];
  one.groups.resize(1);
  std::vector<std::int32_t> rest;
  for (std::int32_t a = 0; a < 16; ++a)
    for (std::int32_t b = a + 1; b < 16; ++b)
      for (std::int32_t c = b + 1; c < 16; ++c)
        for (std::int32_t d = c + 1; d < 16; ++d) {
          Placement placement(16);
          std::vector<std::int32_t> order = {a, b, c, d};
          for (std::int32_t i = 0; i < 16; ++i)
            if (i != a && i != b && i != c && i != d) order.push_back(i);
          for (std::size_t i = 0; i < 16; ++i) placement[i] = Chip(order[i]);
          best = std::min(best, world.model.bound(one, placement).value);
        }
  EXPECT_NEAR(bound.alone()[0], best, 0.02 * best);  // latency and bytes may be least on different sets
  EXPECT_LE(bound.alone()[0], best * (1 + 1e-9));
}

TEST(LowerBound, AGroupOf16RunsAsARingOrOverABlock) {
  // 16 groups of 16 on a torus of 16x16, no hint: a ring's links carry 15/32 of the array each way; so do
  // those of a 4x4 block on lines, 3*5/32. Around both dimensions (every fourth chip of each) a group's own
  // links carry half of that, but all groups together 16 * 2 * 4 * 16 * 15/32 over 1024 links: 15/16.
  const LogicalMesh mesh = mesh_of({16, 16});
  Builder builder(256);
  builder.sync(over_axis(Kind::kAllGather, mesh, 1, 8'000'000, std::nullopt));
  builder.sync(over_axis(Kind::kAllGather, mesh, 0, 1'000));  // so that no group drifts away from the others
  const World world("v5e:16x16", builder.workload());
  const LowerBound bound(world.problem);
  EXPECT_EQ(bound.structures()[0].why, "block");
  EXPECT_NEAR(bound.links()[0], 15.0 / 32 * 8e6 / 42750, 1e-6);
  Evaluator evaluator(world.problem);
  for (const Candidate& candidate : families(world.slice, mesh, 150)) {
    evaluator.assign(candidate.placement);
    EXPECT_LE(bound.step(), evaluator.floor() * (1 + 1e-9)) << candidate.name;
  }
}

TEST(LowerBound, NeverAboveTheFloorNorThatAboveTheScore) {
  Random random(3);
  for (const char* name : {"v5e:2x4", "v5e:4x4", "v5e:4x8", "v5p:2x2x4", "v7x:2x2x2", "v5e:8x16"}) {
    const Slice slice = Slice::parse(name);
    for (int round = 0; round < 6; ++round) {
      const LogicalMesh mesh = mesh_of({2, static_cast<std::int32_t>(slice.chips()) / 4, 2});
      for (const network::Assumptions& assumptions : all_assumptions()) {
        const World world(name, random_workload(mesh, random), assumptions);
        const LowerBound bound(world.problem);
        Evaluator evaluator(world.problem);
        EXPECT_GE(bound.step(), world.workload.compute.value * (1 - 1e-9));
        for (int i = 0; i < 4; ++i) {
          evaluator.assign(i == 0 ? topology::row_major(slice) : random_placement(slice.chips(), random));
          EXPECT_LE(bound.step(), evaluator.floor() * (1 + 1e-9)) << name;
          EXPECT_LE(evaluator.floor(), evaluator.score() * (1 + 1e-9)) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace aoizora::place
