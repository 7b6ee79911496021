#include "aoizora/place/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "aoizora/place/paths.h"

namespace aoizora::place {
namespace {

using topology::Placement;
using topology::Slice;

std::int32_t distance(const Point& a, const Point& b) {
  std::int32_t sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += std::abs(a[d] - b[d]);
  return sum;
}

TEST(Paths, FoldedLine) {
  // 0 2 4 5 3 1 as a ring: every hop 2, but 1 at both ends.
  EXPECT_EQ(folded_path(6), (Path{{0}, {2}, {4}, {5}, {3}, {1}}));
  EXPECT_EQ(folded_path(5), (Path{{0}, {2}, {4}, {3}, {1}}));
}

TEST(Paths, CyclesClose) {
  for (const Point& sizes : {Point{2, 2},
                             {2, 4},
                             {4, 2},
                             {4, 4},
                             {3, 4},
                             {4, 3},
                             {8, 16},
                             {2, 2, 2},
                             {3, 3, 2},
                             {4, 4, 4},
                             {2, 1, 3},
                             {1, 2},
                             {2, 2, 2, 2}}) {
    SCOPED_TRACE(::testing::PrintToString(sizes));
    const auto cycle = cycle_path(sizes);
    ASSERT_TRUE(cycle);
    const std::set<Point> distinct(cycle->begin(), cycle->end());
    EXPECT_EQ(distinct.size(), row_major_path(sizes).size());
    for (std::size_t i = 0; i < cycle->size(); ++i) {
      EXPECT_EQ(distance((*cycle)[i], (*cycle)[(i + 1) % cycle->size()]), 1) << i;
    }
  }
  EXPECT_FALSE(cycle_path({3, 3}));  // bipartite with an odd number of points
  EXPECT_FALSE(cycle_path({1, 4}));
}

TEST(Paths, SnakesStepToNeighbours) {
  for (const Point& sizes : {Point{4, 4}, {3, 5}, {2, 3, 4}, {3, 3, 3}}) {
    const Path snake = snake_path(sizes);
    for (std::size_t i = 1; i < snake.size(); ++i) EXPECT_EQ(distance(snake[i - 1], snake[i]), 1);
  }
}

TEST(Families, AreDistinctBijections) {
  struct Case {
    const char* slice;
    std::vector<std::int32_t> shape;
  };
  for (const Case& c : {Case{"v5e:2x4", {2, 4}},
                        {"v5e:4x4", {4, 4}},
                        {"v5e:4x4", {2, 2, 4}},
                        {"v5e:4x8", {1, 32}},
                        {"v5p:2x2x4", {4, 4}},
                        {"v7x:2x2x2", {4, 4}},
                        {"v5e:16x16", {64, 4}}}) {
    SCOPED_TRACE(c.slice);
    const Slice slice = Slice::parse(c.slice);
    LogicalMesh mesh{{}, c.shape};
    for (std::size_t i = 0; i < c.shape.size(); ++i)
      mesh.axes.push_back(std::string(1, static_cast<char>('a' + i)));
    const auto found = families(slice, mesh, 4000);
    EXPECT_LE(found.size(), 4000U);
    EXPECT_GE(found.size(), 5U);
    std::set<Placement> distinct;
    for (const Candidate& candidate : found) {
      ASSERT_NO_THROW(topology::check_placement(slice, candidate.placement)) << candidate.name;
      EXPECT_TRUE(distinct.insert(candidate.placement).second) << candidate.name;
    }
    EXPECT_TRUE(distinct.contains(topology::row_major(slice)));
  }
}

TEST(Families, HoldTheLayoutsPeopleDrawByHand) {
  // 4x4, mesh a=4,b=4. Blocks: b goes round each 2x2 block, a over the blocks.
  //    0  1 |  4  5
  //    3  2 |  7  6      position 4a+b at each chip
  //    8  9 | 12 13
  //   11 10 | 15 14
  const Slice slice = Slice::parse("v5e:4x4");
  const auto found = families(slice, {{"a", "b"}, {4, 4}}, 4000);
  const auto holds = [&](const std::vector<std::int32_t>& chips) {
    return std::any_of(found.begin(), found.end(), [&](const Candidate& candidate) {
      return std::equal(chips.begin(), chips.end(), candidate.placement.begin(),
                        [](std::int32_t a, Chip b) { return a == b.value; });
    });
  };
  EXPECT_TRUE(holds({0, 1, 5, 4, 2, 3, 7, 6, 8, 9, 13, 12, 10, 11, 15, 14}));
  // Columns instead of rows.
  EXPECT_TRUE(holds({0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}));
  // Folded rows: 0 2 3 1 in each.
  EXPECT_TRUE(holds({0, 2, 3, 1, 4, 6, 7, 5, 8, 10, 11, 9, 12, 14, 15, 13}));
}

}  // namespace
}  // namespace aoizora::place
