#include "aoizora/place/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "aoizora/base/error.h"
#include "aoizora/place/baselines.h"
#include "aoizora/place/describe.h"
#include "aoizora/place/synthetic_testing.h"

namespace aoizora::place {
namespace {

using namespace testing;  // NOLINT: the helpers of synthetic_testing.h
using simulate::Mode;
using ::testing::HasSubstr;
using topology::Placement;
using topology::Slice;

Options quick(std::int64_t evaluations = 20'000) {
  Options options;
  options.evaluations = evaluations;
  options.replayed = 16;
  options.workers = 2;
  options.assumptions = {network::Assumptions{}};
  options.exact_nodes = 5'000;
  return options;
}

Ranking ranked(const char* slice_name, const LogicalMesh& mesh, const simulate::Workload& workload,
               const Options& options = quick()) {
  const Slice slice = Slice::parse(slice_name);
  return rank(workload, slice, network::Profile::builtin(slice.kind()), mesh, options, Cancel());
}

// --- Programs whose optimum is known: it is found, and the gap closes ------------------------------------

TEST(Rank, OneRingOverAllChips) {
  for (const char* name : {"v5e:2x4", "v5e:4x4", "v5e:4x8", "v5p:2x2x4"}) {
    SCOPED_TRACE(name);
    const auto chips = static_cast<std::int32_t>(Slice::parse(name).chips());
    Builder builder(chips);
    builder.compute(50).sync(over_all(Kind::kAllGather, chips, 8'000'000, false));
    const Ranking ranking = ranked(name, mesh_of({chips}), builder.workload());
    EXPECT_LE(ranking.gap, 1e-9);
    EXPECT_TRUE(ranking.exact);
  }
}

TEST(Rank, GroupsOfFourAre2x2Blocks) {
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder builder(16);
  builder.loop(30).compute(100).sync(over_axis(Kind::kAllGather, mesh, 1, 8'000'000)).end_loop();
  const Ranking ranking = ranked("v5e:4x4", mesh, builder.workload());
  EXPECT_LE(ranking.gap, 1e-9);
  // create_device_mesh lays each group on a line of 4 without wrap: twice the bytes per link.
  EXPECT_EQ(ranking.baselines[0].name, "create_device_mesh");
  EXPECT_GT(ranking.baselines[0].step.value - 3000, 1.9 * (ranking.best.step.value - 3000));
  EXPECT_FALSE(ranking.tie);
  EXPECT_GT(ranking.margin, 0.2);
  const Slice slice = Slice::parse("v5e:4x4");
  for (std::size_t group = 0; group < 4; ++group) {
    std::int32_t low[2] = {9, 9}, high[2] = {0, 0};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& at = slice.coordinates(ranking.best.placement[4 * group + i]);
      for (std::size_t d = 0; d < 2; ++d) {
        low[d] = std::min(low[d], at[d]);
        high[d] = std::max(high[d], at[d]);
      }
    }
    EXPECT_EQ(high[0] - low[0], 1);
    EXPECT_EQ(high[1] - low[1], 1);
  }
}

TEST(Rank, TransposedAxes) {
  // Shifts along a axis of 8 and one of 4, on a slice that is 4 wide and 8 deep: row-major has the axis of 8
  // across two rows. Optimal: 8 along y, 4 along x, every message one hop.
  const LogicalMesh mesh = mesh_of({4, 8});
  Builder builder(32);
  builder.sync(shift(mesh, 0, 4'275'000, false)).compute(10).sync(shift(mesh, 1, 4'275'000, false));
  const Ranking ranking = ranked("v5e:4x8", mesh, builder.workload());
  EXPECT_NEAR(ranking.best.step.value, 2 * (100 + 1.25) + 10, 1e-6);
  EXPECT_LE(ranking.gap, 1e-9);
  EXPECT_TRUE(ranking.exact);
}

TEST(Rank, TwoAxesAtOnceMustNotShareLinks) {
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder builder(16);
  const std::int32_t a = builder.start(shift(mesh, 0, 4'275'000, false));
  const std::int32_t b = builder.start(shift(mesh, 1, 4'275'000, false));
  builder.done(a).done(b);
  const Ranking ranking = ranked("v5e:4x4", mesh, builder.workload());
  EXPECT_NEAR(ranking.best.step.value, 100 + 1.25, 1e-6);
  EXPECT_LE(ranking.gap, 1e-9);
}

// --- 8 chips: nothing is better --------------------------------------------------------------------------

TEST(Rank, AllOrdersOf8ByReplayFindNothingBetter) {
  Random random(21);
  for (int round = 0; round < 2; ++round) {
    const LogicalMesh mesh = round == 0 ? mesh_of({2, 4}) : mesh_of({4, 2});
    const simulate::Workload workload = random_workload(mesh, random);
    const Slice slice = Slice::parse("v5e:2x4");
    const Ranking ranking = ranked("v5e:2x4", mesh, workload);
    EXPECT_TRUE(ranking.exact);
    EXPECT_LE(ranking.gap, 1e-9);
    const network::Model model(slice, network::Profile::builtin("v5e"));
    const simulate::Replayer replayer(workload, model);
    Placement placement = topology::row_major(slice);
    double best = 1e300;
    do {
      if (placement[0].value % 4 > 1) continue;  // the other half is a reflection in x and y
      best = std::min(best, replayer.run(placement, Mode::kEvent).step.value);
    } while (std::next_permutation(placement.begin(), placement.end()));
    EXPECT_NEAR(ranking.best.step.value, best, 1e-9 * best);
  }
}

// --- Ties, robustness, anytime, determinism --------------------------------------------------------------

TEST(Rank, AGainWithinTheModelsErrorIsATieAndTheDefaultIsKept) {
  // Almost all compute: whatever the order, the step is the same to a hair.
  const LogicalMesh mesh = mesh_of({4, 4});
  Builder builder(16);
  const std::int32_t gather = builder.start(over_axis(Kind::kAllGather, mesh, 1, 400'000));
  builder.compute(1000).done(gather);
  const Ranking ranking = ranked("v5e:4x4", mesh, builder.workload());
  EXPECT_TRUE(ranking.tie);
  EXPECT_EQ(ranking.chosen.placement, *create_device_mesh(Slice::parse("v5e:4x4"), mesh).placement);
  EXPECT_LE(ranking.gap, 1e-9);
}

TEST(Rank, SaysWhereJaxRefuses) {
  const LogicalMesh mesh = mesh_of({2, 8});
  Builder builder(16);
  builder.sync(over_axis(Kind::kAllReduce, mesh, 1, 1'000'000));
  const Ranking ranking = ranked("v6e:4x4", mesh, builder.workload());
  ASSERT_EQ(ranking.baselines.size(), 3U);
  EXPECT_EQ(ranking.baselines[0].name, "create_device_mesh");
  EXPECT_TRUE(ranking.baselines[0].placement.empty());
  EXPECT_THAT(ranking.baselines[0].note, HasSubstr("JAX refuses mesh a=2,b=8 on v6e:4x4"));
  EXPECT_EQ(ranking.baselines[2].name, "default_split");
  EXPECT_FALSE(ranking.baselines[2].placement.empty());
}

TEST(Rank, NamesTheWinnerUnderEachAssumption) {
  Random random(31);
  const LogicalMesh mesh = mesh_of({4, 4});
  const Slice slice = Slice::parse("v5e:4x4");
  Options options = quick(5'000);
  options.assumptions.clear();
  for (int round = 0; round < 3; ++round) {
    const simulate::Workload workload = random_workload(mesh, random);
    const Ranking ranking = ranked("v5e:4x4", mesh, workload, options);
    ASSERT_EQ(ranking.by_assumption.size(), all_assumptions().size());
    for (std::size_t a = 0; a < ranking.by_assumption.size(); ++a) {
      const ByAssumption& under = ranking.by_assumption[a];
      EXPECT_EQ(under.name, assumption_name(all_assumptions()[a]));
      const network::Model model(slice, network::Profile::builtin("v5e"), all_assumptions()[a]);
      const simulate::Replayer replayer(workload, model);
      EXPECT_EQ(under.chosen, replayer.run(ranking.chosen.placement, Mode::kEvent).step);
      EXPECT_EQ(under.best.step, replayer.run(under.best.placement, Mode::kEvent).step);
      EXPECT_LE(under.best.step, under.chosen);
      EXPECT_NEAR(under.regret, under.chosen / under.best.step - 1, 1e-12);
    }
  }
}

TEST(Rank, IsTheSameBitForBitForAnyNumberOfWorkers) {
  Random random(41);
  const LogicalMesh mesh = mesh_of({2, 2, 4});
  const simulate::Workload workload = random_workload(mesh, random);
  const Slice slice = Slice::parse("v5e:4x4");
  std::vector<std::string> texts;
  for (const unsigned workers : {1U, 2U, 3U}) {
    Options options = quick(5'000);
    options.assumptions.clear();
    options.workers = workers;
    texts.push_back(ranking_json(ranked("v5e:4x4", mesh, workload, options), slice, mesh, 10).dump());
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
}

TEST(Rank, ACancelledSearchReturnsWhatItHasWithItsGap) {
  Random random(51);
  const LogicalMesh mesh = mesh_of({4, 4});
  const simulate::Workload workload = random_workload(mesh, random);
  const Slice slice = Slice::parse("v5e:4x4");
  Cancel cancel;
  cancel.request();
  const Ranking ranking = rank(workload, slice, network::Profile::builtin("v5e"), mesh, quick(), cancel);
  topology::check_placement(slice, ranking.best.placement);
  EXPECT_GT(ranking.lower_bound.value, 0);
  EXPECT_LE(ranking.lower_bound, ranking.best.step);
  EXPECT_THAT(ranking.notes.back(), HasSubstr("stopped before"));
}

TEST(Rank, IsNeverWorseThanTheBaselines) {
  Random random(61);
  struct Case {
    const char* slice;
    std::vector<std::int32_t> shape;
  };
  for (const Case& c : {Case{"v5e:4x4", {2, 8}},
                        {"v5p:2x2x4", {4, 4}},
                        {"v7x:2x2x2", {4, 4}},
                        {"v6e:4x8", {8, 4}},
                        {"v5e:2x4+2x4", {4, 4}}}) {
    SCOPED_TRACE(c.slice);
    const LogicalMesh mesh = mesh_of(c.shape);
    const Ranking ranking = ranked(c.slice, mesh, random_workload(mesh, random), quick(3'000));
    for (const Scored& baseline : ranking.baselines) {
      if (!baseline.placement.empty()) {
        EXPECT_LE(ranking.best.step, baseline.step);
      }
    }
    EXPECT_LE(ranking.best.step, ranking.chosen.step);
    EXPECT_LE(ranking.lower_bound, ranking.best.step);
    EXPECT_GE(ranking.worst.step, ranking.best.step);
  }
}

TEST(Rank, RefusesWhatDoesNotFit) {
  Builder builder(8);
  builder.sync(over_all(Kind::kAllGather, 8, 1000, true));
  EXPECT_THROW(ranked("v5e:4x4", mesh_of({16}), builder.workload()), UserError);
  EXPECT_THROW(ranked("v5e:2x4", mesh_of({4}), builder.workload()), UserError);
  try {
    ranked("v5e:4x4", mesh_of({4, 4}), builder.workload());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the program runs on 8 devices but v5e:4x4 has 16 chips"));
  }
}

TEST(InferMesh, FromTheGroups) {
  const auto inferred = [](const std::vector<std::int32_t>& shape, const std::vector<std::size_t>& axes) {
    const LogicalMesh mesh = mesh_of(shape);
    std::int32_t positions = 1;
    for (const std::int32_t size : shape) positions *= size;
    Builder builder(positions);
    for (const std::size_t axis : axes) builder.sync(over_axis(Kind::kAllGather, mesh, axis, 1000));
    return infer_mesh(builder.workload()).shape;
  };
  EXPECT_EQ(inferred({4, 4}, {0, 1}), (std::vector<std::int32_t>{4, 4}));
  EXPECT_EQ(inferred({4, 4}, {1}), (std::vector<std::int32_t>{4, 4}));
  EXPECT_EQ(inferred({2, 4, 2}, {0, 1}), (std::vector<std::int32_t>{2, 4, 2}));
  EXPECT_EQ(inferred({2, 8}, {}), (std::vector<std::int32_t>{16}));
}

}  // namespace
}  // namespace aoizora::place
