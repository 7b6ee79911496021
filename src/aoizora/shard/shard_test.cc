#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aoizora/shard/cost.h"
#include "aoizora/shard/dot.h"
#include "aoizora/shard/prune.h"
#include "aoizora/topology/slice.h"

namespace aoizora::shard {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A profile with round numbers, so that the expected times can be calculated by hand.
network::Profile round_profile() {
  network::Profile profile = network::Profile::builtin("v5e");
  profile.peak_flops_per_micro = 1e6;
  profile.hbm_bandwidth = BytesPerMicro(1000);
  profile.matmul_efficiency = 0.5;
  profile.flash_efficiency = 0.25;
  profile.hbm_efficiency = 1;
  return profile;
}

Cost cost_of(const std::string& text) {
  const auto program = ir::read_stablehlo(text, "test.mlir");
  const auto profile = round_profile();
  const network::Model model(topology::Slice::parse("v5e:2x2"), profile);
  return cost(program, profile, model);
}

// [256, 512] x [512, 128], float32: 2*256*512*128 = 33,554,432 FLOP; every dimension is a multiple of the
// tile.
//   matrix unit: 33,554,432 / (1e6 * 0.5) = 67.1 us;  HBM: (256*512 + 512*128 + 256*128) * 4 B / 1000 = 917.5
//   us
constexpr const char* kDot = R"("builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<256x512xf32>, tensor<512x128xf32>) -> tensor<256x128xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<256x512xf32>, %arg1: tensor<512x128xf32>):
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<256x512xf32>, tensor<512x128xf32>) -> tensor<256x128xf32>
    "func.return"(%0) : (tensor<256x128xf32>) -> ()
  }) : () -> ()
}) : () -> ()
)";

TEST(Cost, OneMatrixProductByHand) {
  const Cost cost = cost_of(kDot);
  EXPECT_NEAR(cost.compute.value, 917.504, 1e-6);
  EXPECT_NEAR(cost.compute_floor.value, 33.554432, 1e-6);
  EXPECT_EQ(cost.comm.value, 0);
  EXPECT_EQ(cost.arguments.value, (256 * 512 + 512 * 128) * 4);
  EXPECT_EQ(cost.live.value, cost.arguments.value + 256 * 128 * 4 + 917'504)
      << "arguments, result, largest working set";
}

// Two element-wise ops on 1,000 floats are one fusion: 4,000 B read and 4,000 B written, nothing between
// them.
TEST(Cost, ElementWiseChainsAreReadAndWrittenOnce) {
  const Cost cost = cost_of(R"("builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<1000xf32>) -> tensor<1000xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<1000xf32>):
    %0 = "stablehlo.multiply"(%arg0, %arg0) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    %1 = "stablehlo.add"(%0, %arg0) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
    "func.return"(%1) : (tensor<1000xf32>) -> ()
  }) : () -> ()
}) : () -> ()
)");
  EXPECT_NEAR(cost.compute.value, 8.0, 1e-9);
}

TEST(Cost, SmallDimensionsFillTheTile) {
  const DotDims dims{1, 8, 12, 64};
  EXPECT_DOUBLE_EQ(dims.flops(), 2.0 * 8 * 12 * 64);
  EXPECT_DOUBLE_EQ(dims.padded_flops(128), 2.0 * 8 * 128 * 128);
  EXPECT_DOUBLE_EQ(dims.padded_flops(256), 2.0 * 8 * 256 * 256);
}

Cost made(double compute, double comm, std::int64_t live, double floor = 0) {
  Cost cost;
  cost.compute = Micros(compute);
  cost.comm = Micros(comm);
  cost.live = Bytes(live);
  cost.compute_floor = Micros(floor);
  return cost;
}

TEST(Prune, KeepsTheCheapestAndNamesTheStrongestReason) {
  network::Profile profile = round_profile();
  profile.hbm_capacity = Bytes(1000);
  const std::vector<Cost> costs{made(50, 20, 10),     made(10, 10, 2000), made(40, 20, 10),
                                made(200, 1, 5, 150), made(60, 60, 20),   made(20, 90, 5)};
  const auto verdicts = prune(costs, {"a", "big", "best", "slow", "worse", "odd"}, profile, 2);
  EXPECT_TRUE(verdicts[2].keep);
  EXPECT_TRUE(verdicts[0].keep);
  EXPECT_EQ(verdicts[2].reason, "rank 1 of 5 before compiling");
  EXPECT_THAT(verdicts[1].reason, StartsWith("does not fit HBM"));
  EXPECT_THAT(verdicts[3].reason, StartsWith("slower than bound"));
  EXPECT_EQ(verdicts[4].reason, "dominated by best in compute, communication and memory");
  EXPECT_EQ(verdicts[5].reason, "estimate rank 3 of 5: 1.83 x the best");
}

TEST(Prune, TiesGoToTheEarlierOne) {
  const auto verdicts = prune({made(1, 1, 1), made(1, 1, 1)}, {"a", "b"}, round_profile(), 1);
  EXPECT_TRUE(verdicts[0].keep);
  EXPECT_FALSE(verdicts[1].keep);
}

}  // namespace
}  // namespace aoizora::shard
