#include "aoizora/simulate/replay.h"

#include <gmock/gmock.h>

#include "aoizora/base/error.h"
#include "aoizora/simulate/testing.h"

/// Hand calculations. Links carry 1 byte/µs and have no latency. Chips of v5e:2x2 (links both ways, no wrap):
///
///     2 -- 3
///     |    |
///     0 -- 1
namespace aoizora::simulate {
namespace {

using network::Kind;
using ::testing::DoubleNear;

StepTime replay(const Workload& work, std::string_view slice_name, Mode mode) {
  const auto slice = topology::Slice::parse(slice_name);
  const network::Model model(slice, plain_profile(slice.kind()));
  const Replayer replayer(work, model);
  const StepTime time = replayer.run(topology::row_major(slice), mode);
  EXPECT_LE(replayer.bound(topology::row_major(slice)), time.step);
  EXPECT_NEAR(time.step.value, (time.compute + time.exposed_comm + time.exposed_copies).value, 1e-6);
  return time;
}

StepTime both(const Workload& work, std::string_view slice = "v5e:2x2") {
  const StepTime event = replay(work, slice, Mode::kEvent);
  EXPECT_NEAR(replay(work, slice, Mode::kLockStep).step.value, event.step.value, 1e-6);
  return event;
}

TEST(Replay, SynchronousCollectiveAddsToCompute) {
  const auto time = both(workload(4, {permute({{0, 1}, {2, 3}}, 5)}, {{compute(10), sync(0), compute(1)}}));
  EXPECT_DOUBLE_EQ(time.step.value, 16);
  EXPECT_DOUBLE_EQ(time.compute.value, 11);
  EXPECT_DOUBLE_EQ(time.exposed_comm.value, 5);
  EXPECT_DOUBLE_EQ(time.hidden_comm.value, 0);
}

TEST(Replay, ComputeHidesWhatRunsBesideIt) {
  const auto hidden = both(workload(4, {permute({{0, 1}}, 4)}, {{start(0), compute(10), done(0)}}));
  EXPECT_DOUBLE_EQ(hidden.step.value, 10);
  EXPECT_DOUBLE_EQ(hidden.exposed_comm.value, 0);
  EXPECT_DOUBLE_EQ(hidden.hidden_comm.value, 4);
  const auto partly = both(workload(4, {permute({{0, 1}}, 14)}, {{start(0), compute(10), done(0)}}));
  EXPECT_DOUBLE_EQ(partly.step.value, 14);
  EXPECT_DOUBLE_EQ(partly.exposed_comm.value, 4);
  EXPECT_DOUBLE_EQ(partly.hidden_comm.value, 10);
  EXPECT_DOUBLE_EQ(partly.collectives[0].exposed.value, 4);
}

/// Two permutes over the link 0 -> 1. Alone 10 µs each. The second starts at 4, when the first has 6 bytes
/// left; at half speed these take 12 more, until 16; then the second has 10 - 6 = 4 left, alone: 20.
TEST(Replay, CollectivesInFlightShareTheirLinks) {
  const Workload work = workload(4, {permute({{0, 1}}, 10), permute({{0, 1}}, 10)},
                                 {{start(0), compute(4), start(1), done(0), compute(1), done(1)}});
  const auto time = both(work);
  EXPECT_DOUBLE_EQ(time.step.value, 20);
  EXPECT_DOUBLE_EQ(time.collectives[0].in_flight.value, 16);
  EXPECT_DOUBLE_EQ(time.collectives[1].in_flight.value, 16);
  EXPECT_DOUBLE_EQ(time.collectives[0].isolated.value, 10);
  EXPECT_DOUBLE_EQ(time.collectives[0].exposed.value, 12);  // from 4 to 16
  EXPECT_DOUBLE_EQ(time.collectives[1].exposed.value, 3);   // from 17 to 20
  EXPECT_DOUBLE_EQ(time.hidden_comm.value, 5);              // 0 to 4 and 16 to 17
}

/// N5. c0 is (0 -> 1), 20 bytes; c1 is (1 -> 3), 5 bytes. Device 3 comes to c1 at 0, device 1 at 20, when c0
/// is over; so c1 is over at 25.
TEST(Replay, GroupStartsWhenItsLastMemberComes) {
  const Workload work =
      workload(4, {permute({{0, 1}}, 20), permute({{1, 3}}, 5)}, {{sync(0), sync(1), compute(2)}});
  const auto event = replay(work, "v5e:2x2", Mode::kEvent);
  EXPECT_DOUBLE_EQ(event.step.value, 27);
  EXPECT_EQ(event.slowest, 1);  // 1 and 3 end last; 3 waited 25 for c1, 1 waited 20 for c0 and 5 for c1
  EXPECT_DOUBLE_EQ(event.collectives[0].exposed.value, 20);
  EXPECT_DOUBLE_EQ(event.collectives[1].exposed.value, 5);
  EXPECT_DOUBLE_EQ(replay(work, "v5e:2x2", Mode::kLockStep).step.value, 27);
}

/// c0 is (0 -> 2), c1 is (1 -> 3): no member in common. In lock-step c1 waits for c0 all the same.
TEST(Replay, IndependentGroupsDoNotWaitForEachOther) {
  const Workload work = workload(4, {permute({{0, 2}}, 10), permute({{1, 3}}, 10)}, {{sync(0), sync(1)}});
  EXPECT_DOUBLE_EQ(replay(work, "v5e:2x2", Mode::kEvent).step.value, 10);
  EXPECT_DOUBLE_EQ(replay(work, "v5e:2x2", Mode::kLockStep).step.value, 20);
}

TEST(Replay, CopiesRunBesideCompute) {
  const Workload work = workload(
      4, {}, {{copy_start(0, 6), compute(4), copy_done(0), copy_start(1, 3), compute(5), copy_done(1)}});
  const auto time = both(work);
  EXPECT_DOUBLE_EQ(time.step.value, 11);  // 6, then 5 that hide 3
  EXPECT_DOUBLE_EQ(time.exposed_copies.value, 2);
}

/// N7. The first iteration waits for a copy of 50; each of the 1000 takes 10 + 5 of which 3 are hidden.
TEST(Replay, LoopIsItsFirstIterationAndASteadyState) {
  const Workload work = workload(4, {permute({{0, 1}, {1, 0}, {2, 3}, {3, 2}}, 5)},
                                 {{copy_start(0, 50), loop(1, 1000), compute(1)},
                                  {copy_done(0), compute(7), start(0), compute(3), done(0)}});
  const auto time = both(work);
  EXPECT_DOUBLE_EQ(time.step.value, 50 + 1000 * 12 + 1);
  EXPECT_DOUBLE_EQ(time.compute.value, 10001);
  EXPECT_NEAR(time.exposed_comm.value, 2000, 1e-6);
  EXPECT_NEAR(time.hidden_comm.value, 3000, 1e-6);
  EXPECT_DOUBLE_EQ(time.exposed_copies.value, 50);
  EXPECT_GT(time.iterations_skipped, 900);
  EXPECT_EQ(time.collectives[0].executions, 1000);
  EXPECT_DOUBLE_EQ(time.collectives[0].in_flight.value, 5);
  EXPECT_EQ(time.links[time.collectives[0].busiest.at()].bytes.value, 5000);
}

/// A transfer from an iteration's end into the next: begun in the loop, waited for at its beginning.
TEST(Replay, TransferMayReachIntoTheNextIteration) {
  const Workload work = workload(4, {permute({{0, 1}, {1, 0}, {2, 3}, {3, 2}}, 5)},
                                 {{start(0), loop(1, 100), done(0)}, {done(0), compute(3), start(0)}});
  // 5, then 3 + 5 for each: 5 + 100 * 8.
  EXPECT_NEAR(both(work).step.value, 805, 1e-6);
}

TEST(Replay, NestedLoops) {
  const Workload work = workload(
      4, {permute({{0, 1}, {1, 0}, {2, 3}, {3, 2}}, 5)},
      {{loop(1, 20)}, {compute(1), loop(2, 30), sync(0)}, {compute(2), sync(0), loop(3, 4)}, {compute(0.5)}});
  EXPECT_NEAR(both(work).step.value, 20 * (1 + 30 * (2 + 5 + 2) + 5), 1e-6);
}

TEST(Replay, RefusesAProgramForAnotherNumberOfDevices) {
  const auto slice = topology::Slice::parse("v5e:2x2");
  const network::Model model(slice, plain_profile("v5e"));
  const Workload work = workload(32, {}, {{compute(1)}});
  try {
    Replayer(work, model);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the program is for 32 devices, but v5e:2x2 has 4: give a slice of 32 devices");
  }
}

TEST(Replay, RefusesAGroupOutsideTheProgram) {
  const auto slice = topology::Slice::parse("v5e:2x2");
  const network::Model model(slice, plain_profile("v5e"));
  const Workload work = workload(4, {grouped(Kind::kAllReduce, {{0, 9}}, 8)}, {{sync(0)}});
  EXPECT_THROW(Replayer(work, model), UserError);
}

}  // namespace
}  // namespace aoizora::simulate
