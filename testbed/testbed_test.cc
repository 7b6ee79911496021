// What the testbed works out before any packet flows: layouts, cuts, predictions, choices.
#include <gtest/gtest.h>

#include <set>

#include "aoizora/base/error.h"
#include "choose.h"
#include "layout.h"
#include "predict.h"
#include "program.h"
#include "torus.h"

namespace aoizora::testbed {
namespace {

using network::Kind;
using simulate::Op;

network::Profile profile() { return network::Profile::builtin("v5e"); }

Program one_collective(Kind kind, std::int64_t bytes, std::vector<std::vector<Partition>> groups,
                       std::int32_t chips) {
  Program program;
  program.name = "test";
  program.slice = "v5e:2x4";
  program.mesh = {{"a"}, {chips}};
  program.workload.partitions = chips;
  network::Collective collective;
  collective.kind = kind;
  collective.bytes = Bytes(bytes);
  collective.groups = std::move(groups);
  program.workload.collectives.push_back(collective);
  program.workload.collective_names = {"c"};
  program.workload.blocks = {{"step", {{Op::Kind::kStart, {}, 0, 1, {}}, {Op::Kind::kDone, {}, 0, 1, {}}}}};
  return program;
}

std::vector<Partition> all(std::int32_t n) {
  std::vector<Partition> group;
  for (std::int32_t p = 0; p < n; ++p) group.emplace_back(p);
  return group;
}

// A ring of 4, both directions: 800 bytes in all, so each edge carries 3 of 4 shards of 100 (half the array)
// in each direction. The first 100 are the member's own; the rest waits for what the member before sends.
TEST(Layout, RingPassesOnWhatItGets) {
  const topology::Slice slice = topology::Slice::parse("v5e:2x2");
  const network::Model model(slice, profile());
  Program program = one_collective(Kind::kAllGather, 800, {all(4)}, 4);
  const Predictor predictor(program, model);
  const topology::Placement placement = topology::row_major(slice);
  const Layout layout = lay_out(predictor.step(), predictor.units(placement), placement);
  ASSERT_EQ(layout.units.size(), 1U);
  ASSERT_EQ(layout.flows.size(), 8U);
  for (const FlowPlan& flow : layout.flows) {
    EXPECT_EQ(flow.bytes, 300);
    EXPECT_EQ(flow.first, 100);
    ASSERT_GE(flow.after, 0);
    const FlowPlan& before = layout.flows[static_cast<std::size_t>(flow.after)];
    EXPECT_EQ(before.to, flow.from) << "what a member passes on must have come to it";
    EXPECT_NE(before.from, flow.to) << "and goes on, not back";
  }
}

TEST(Layout, ExchangeWaitsForNothing) {
  const topology::Slice slice = topology::Slice::parse("v5e:2x2");
  const network::Model model(slice, profile());
  Program program = one_collective(Kind::kAllToAll, 400, {all(4)}, 4);
  const Predictor predictor(program, model);
  const topology::Placement placement = topology::row_major(slice);
  const Layout layout = lay_out(predictor.step(), predictor.units(placement), placement);
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  for (const FlowPlan& flow : layout.flows) {
    EXPECT_EQ(flow.bytes, 100);
    EXPECT_EQ(flow.after, -1);
    EXPECT_EQ(flow.first, flow.bytes);
    pairs.emplace(flow.from, flow.to);
  }
  EXPECT_EQ(pairs.size(), 12U);
}

// A collective that is started twice is two executions with units of their own.
TEST(Layout, ExecutionsAreApart) {
  const topology::Slice slice = topology::Slice::parse("v5e:2x2");
  const network::Model model(slice, profile());
  Program program =
      one_collective(Kind::kAllGather, 800, {{Partition(0), Partition(1)}, {Partition(2), Partition(3)}}, 4);
  auto& ops = program.workload.blocks[0].ops;
  ops.insert(ops.end(), {ops[0], ops[1]});
  const Predictor predictor(program, model);
  const topology::Placement placement = topology::row_major(slice);
  const Layout layout = lay_out(predictor.step(), predictor.units(placement), placement);
  ASSERT_EQ(layout.units_of.size(), 2U);
  EXPECT_EQ(layout.units.size(), 4U);
  EXPECT_EQ(layout.actions[0].index, 0);
  EXPECT_EQ(layout.actions[3].index, 1);
}

TEST(Program, LoopsAreUnrolledToTheCut) {
  simulate::Workload workload = one_collective(Kind::kAllGather, 800, {all(4)}, 4).workload;
  workload.blocks.push_back(workload.blocks[0]);
  workload.blocks[0].ops = {{Op::Kind::kCompute, Micros(5), -1, 1, {}}, {Op::Kind::kLoop, {}, 1, 30, {}}};
  const simulate::Workload twice = straightened(workload, 2);
  ASSERT_EQ(twice.blocks.size(), 1U);
  EXPECT_EQ(twice.blocks[0].ops.size(), 5U);
  const simulate::Workload small = scaled(twice, 0.001, 10);
  EXPECT_EQ(small.collectives[0].bytes.value, 1) << "a collective never vanishes";
  EXPECT_EQ(small.blocks[0].ops[0].duration.value, 50);
}

// Gloo, by its source: one direction, the order of the group, all-reduce to the rank before.
TEST(Program, GlooSendsOneWay) {
  const topology::Slice slice = topology::Slice::parse("v5e:2x4");
  const network::Model model(slice, profile());
  for (const Kind kind : {Kind::kAllGather, Kind::kAllReduce}) {
    Program program = one_collective(kind, 8000, {all(8)}, 8);
    program.workload = with_gloo(program.workload);
    const Predictor predictor(program, model);
    for (const simulate::Unit& unit : predictor.units(topology::row_major(slice))) {
      for (const network::Phase& phase : unit.schedule.phases) {
        ASSERT_EQ(phase.flows.size(), 8U);
        for (const network::Flow& flow : phase.flows) {
          EXPECT_EQ(flow.to.value, (flow.from.value + (kind == Kind::kAllGather ? 1 : 7)) % 8);
          EXPECT_DOUBLE_EQ(flow.bytes, 7000);
        }
      }
    }
  }
  EXPECT_THROW(with_gloo(one_collective(Kind::kReduceScatter, 8, {all(8)}, 8).workload), UserError);
}

// Two pairs whose routes share the link 0 -> 1 on a line of 4: at once they need twice the time of one.
TEST(Predict, AblationsLeaveContentionOut) {
  const topology::Slice slice = topology::Slice::parse("v5e:1x4");
  const network::Model model(slice, profile());
  Program program = one_collective(Kind::kPermute, 42'750'000, {}, 4);
  program.workload.collectives[0].pairs = {{Partition(0), Partition(2)}, {Partition(1), Partition(3)}};
  const Prediction one = Predictor(program, model).predict(topology::row_major(slice));
  EXPECT_NEAR(one.event, 2000, 5);       // 42.75 MB at 42.75 GB/s, halved
  EXPECT_NEAR(one.collective, 2000, 5);  // one collective: its pairs contend
  EXPECT_NEAR(one.axis, 1000, 5);        // a pair alone
  EXPECT_NEAR(one.no_contention, 1000, 5);
  EXPECT_DOUBLE_EQ(one.hop_bytes, 4 * 42'750'000.0);
}

TEST(Choose, AllOrNoneOfTheClasses) {
  const topology::Slice slice = topology::Slice::parse("v5e:2x2");
  const network::Model model(slice, profile());
  Program program = one_collective(Kind::kAllToAll, 1'000'000,
                                   {{Partition(0), Partition(1)}, {Partition(2), Partition(3)}}, 4);
  program.mesh = {{"a", "b"}, {2, 2}};
  // Pairs along x, along y, or along the diagonals: three classes of 24 orders.
  const Choices choices = choose(program, model, 10, 48, 1);
  EXPECT_TRUE(choices.exhaustive);
  EXPECT_EQ(choices.classes, 3);
  ASSERT_EQ(choices.choices.size(), 3U);
  std::size_t row_major = 0;
  for (const Choice& one : choices.choices)
    row_major += one.why.find("row_major") != std::string::npos ? 1U : 0U;
  EXPECT_EQ(row_major, 1U);
}

TEST(Torus, RefusesWhatItCantBuild) {
  EXPECT_THROW(Torus(topology::Slice::parse("v5e:4x8"), {}), UserError);
  EXPECT_THROW(Torus(topology::Slice::parse("v7x:2x2x1"), {}), UserError);
  EXPECT_NO_THROW(Torus(topology::Slice::parse("v5e:16x1"), {}));
}

}  // namespace
}  // namespace aoizora::testbed
