#include "aoizora/place/exact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "aoizora/place/local_search.h"
#include "aoizora/place/pool.h"
#include "aoizora/place/synthetic_testing.h"

namespace aoizora::place {
namespace {

using namespace testing;  // NOLINT: the helpers of synthetic_testing.h
using topology::Placement;
using topology::Slice;

struct World {
  World(const char* slice_name, const LogicalMesh& mesh_in, simulate::Workload w,
        network::Assumptions assumptions = {})
      : slice(Slice::parse(slice_name)),
        model(slice, network::Profile::builtin(slice.kind()), assumptions),
        mesh(mesh_in),
        workload(std::move(w)),
        problem(workload, model),
        bound(problem) {}
  Slice slice;
  network::Model model;
  LogicalMesh mesh;
  simulate::Workload workload;
  Problem problem;
  LowerBound bound;
};

struct Brute {
  double floor = std::numeric_limits<double>::infinity();
  double score = std::numeric_limits<double>::infinity();
  std::set<std::uint64_t> signatures;
};

/// All n! placements, one by one: the slow twin.
Brute brute_force(const World& world) {
  Brute brute;
  Placement placement = topology::row_major(world.slice);
  Evaluator evaluator(world.problem);
  do {
    evaluator.assign(placement);
    brute.floor = std::min(brute.floor, evaluator.floor());
    brute.score = std::min(brute.score, evaluator.score());
    brute.signatures.insert(evaluator.signature());
  } while (std::next_permutation(placement.begin(), placement.end()));
  return brute;
}

TEST(BranchAndBound, EqualsAllOrdersOf8) {
  Random random(11);
  for (int round = 0; round < 4; ++round) {
    const LogicalMesh mesh = round % 2 == 0 ? mesh_of({2, 4}) : mesh_of({2, 2, 2});
    const char* slice = round == 3 ? "v5p:2x2x2" : "v5e:2x4";
    const World world(slice, mesh, random_workload(mesh, random));
    const Brute brute = brute_force(world);
    ExactOptions options;
    options.cutoff = std::numeric_limits<double>::infinity();
    options.nodes = 10'000'000;
    const ExactResult all = branch_and_bound(world.problem, mesh, world.bound, options, Cancel());
    ASSERT_TRUE(all.complete);
    // Unit loads are rounded down to 1e-12, the bounds that do not look at placements are not.
    EXPECT_NEAR(all.lower_bound, brute.floor, 1e-11 * brute.floor);
    ASSERT_FALSE(all.survivors.empty());
    EXPECT_DOUBLE_EQ(all.survivors.front().score, brute.score);
    // One of each kind: no more kinds than signatures, and at most as many times fewer as there are
    // symmetries.
    EXPECT_LE(all.survivors.size(), brute.signatures.size());
    EXPECT_GE(all.survivors.size() * 8, brute.signatures.size());
    // In lock-step the score is the floor, and the bound the best score.
    options.lock_step = true;
    const ExactResult lock_step = branch_and_bound(world.problem, mesh, world.bound, options, Cancel());
    ASSERT_TRUE(lock_step.complete);
    EXPECT_NEAR(lock_step.lower_bound, brute.score, 1e-11 * brute.score);
    options.lock_step = false;
    // With a cutoff only what is below it is left, and the bound still holds.
    options.cutoff = brute.floor + 0.3 * (brute.score - brute.floor);
    const ExactResult some = branch_and_bound(world.problem, mesh, world.bound, options, Cancel());
    EXPECT_TRUE(some.complete);
    EXPECT_LE(some.survivors.size(), all.survivors.size());
    for (const Survivor& survivor : some.survivors) EXPECT_LT(survivor.floor, options.cutoff);
    EXPECT_LE(some.lower_bound, brute.floor * (1 + 1e-11));
    if (brute.floor < options.cutoff) {
      EXPECT_NEAR(some.lower_bound, brute.floor, 1e-11 * brute.floor);
    }
  }
}

TEST(BranchAndBound, AnUnfinishedSearchStillBounds) {
  Random random(12);
  const LogicalMesh mesh = mesh_of({2, 4});
  const World world("v5e:2x4", mesh, random_workload(mesh, random));
  const Brute brute = brute_force(world);
  for (const std::int64_t nodes : {1, 10, 100, 1000}) {
    ExactOptions options;
    options.cutoff = std::numeric_limits<double>::infinity();
    options.nodes = nodes;
    const ExactResult result = branch_and_bound(world.problem, mesh, world.bound, options, Cancel());
    EXPECT_FALSE(result.complete);
    EXPECT_LE(result.visited, nodes);
    EXPECT_LE(result.lower_bound, brute.floor * (1 + 1e-12));
    EXPECT_GE(result.lower_bound, world.bound.step() * (1 - 1e-9));
  }
}

TEST(Climb, FindsTheRingFromAnywhere) {
  // One ring through 16 chips in the group's order: all Hamiltonian cycles of 4x4 are optimal.
  const LogicalMesh mesh = mesh_of({16});
  Builder builder(16);
  builder.sync(over_all(Kind::kAllGather, 16, 8'000'000, false));
  const World world("v5e:4x4", mesh, builder.workload());
  Random random(5);
  Evaluator evaluator(world.problem);
  int reached = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Climb climbed =
        climb(evaluator, random_placement(16, random), {seed, 50'000, world.bound.step()}, Cancel());
    topology::check_placement(world.slice, climbed.placement);
    evaluator.assign(climbed.placement);
    EXPECT_EQ(evaluator.score(), climbed.score);
    EXPECT_LE(climbed.evaluations, 50'000 + 1);
    if (climbed.score <= world.bound.step() * (1 + 1e-9)) ++reached;
  }
  EXPECT_GE(reached, 3);
}

TEST(FastSearch, SameForAnyNumberOfWorkersAndWithinBudget) {
  Random random(6);
  const LogicalMesh mesh = mesh_of({2, 8});
  const World world("v5e:4x4", mesh, random_workload(mesh, random));
  const auto structured = families(world.slice, mesh, 500);
  std::vector<Pool> pools;
  for (const unsigned workers : {1U, 2U, 5U}) {
    pools.push_back(fast_search(world.problem, world.bound, structured, 20'000, 3, workers, 40, Cancel()));
  }
  for (const Pool& pool : pools) {
    EXPECT_EQ(pool.evaluated, pools[0].evaluated);
    EXPECT_LE(pool.evaluated, 20'000 + 100);
    ASSERT_EQ(pool.entries.size(), pools[0].entries.size());
    for (std::size_t i = 0; i < pool.entries.size(); ++i) {
      EXPECT_EQ(pool.entries[i].placement, pools[0].entries[i].placement);
      EXPECT_EQ(pool.entries[i].score, pools[0].entries[i].score);
      if (i > 0) {
        EXPECT_LE(pool.entries[i - 1].score, pool.entries[i].score);
      }
    }
    EXPECT_EQ(pool.worst.placement, pools[0].worst.placement);
    EXPECT_GE(pool.worst.score, pool.entries.back().score);
  }
}

}  // namespace
}  // namespace aoizora::place
