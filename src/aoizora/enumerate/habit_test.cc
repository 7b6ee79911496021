#include "aoizora/enumerate/habit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace aoizora::enumerate {
namespace {

Candidate candidate(std::vector<std::int32_t> shape, const std::string& attention, AxisRules rules = {}) {
  return {{{"data", "context", "tensor"}, std::move(shape)}, std::move(rules), attention, ""};
}

std::vector<std::string> names_of(const Candidate& one, std::int64_t chips) {
  std::vector<std::string> names;
  for (const auto& habit : habits(chips)) {
    if (is_habit(one, habit)) names.push_back(habit.name);
  }
  return names;
}

TEST(Habits, ByHandOnEightChips) {
  using ::testing::ElementsAre;
  EXPECT_THAT(names_of(candidate({1, 8, 1}, "all_gather_kv"), 8), ElementsAre("maxdiffusion_default"));
  EXPECT_THAT(names_of(candidate({1, 8, 1}, "ulysses"), 8), ElementsAre("ulysses"));
  EXPECT_THAT(names_of(candidate({2, 4, 1}, "all_gather_kv"), 8), ElementsAre("cfg_parallel"));
  // Where no chip shares a sequence, the strategy says nothing.
  EXPECT_THAT(names_of(candidate({2, 1, 4}, "all_gather_kv"), 8), ElementsAre("cfg_tensor"));
  EXPECT_THAT(names_of(candidate({1, 1, 8}, "head_parallel"), 8), ElementsAre("megatron_tp"));
  EXPECT_THAT(names_of(candidate({2, 2, 2}, "all_gather_kv"), 8), ElementsAre());
}

TEST(Habits, WeightsSplitOverTheSequencesChipsAreNoHabit) {
  const auto split = candidate({1, 8, 1}, "all_gather_kv", {{"embed", {"context"}}});
  EXPECT_THAT(names_of(split, 8), ::testing::ElementsAre());
}

TEST(Habits, AnotherNumberOfChipsOrAnotherAxisIsNoHabit) {
  EXPECT_THAT(names_of(candidate({1, 8, 1}, "ring"), 16), ::testing::ElementsAre());
  Candidate with_more = candidate({1, 8, 1}, "ring");
  with_more.mesh.axes.push_back("fsdp");
  with_more.mesh.shape.push_back(2);
  EXPECT_THAT(names_of(with_more, 8), ::testing::ElementsAre());
}

TEST(Habits, AnOddSliceHasNoGuidanceHalves) {
  for (const auto& habit : habits(9)) EXPECT_EQ(habit.data, 1);
}

}  // namespace
}  // namespace aoizora::enumerate
