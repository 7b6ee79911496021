#include "aoizora/topology/slice.h"

#include <gmock/gmock.h>

#include "aoizora/base/error.h"
#include "aoizora/topology/route.h"
#include "aoizora/topology/symmetry.h"

namespace aoizora::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(std::string_view slice) {
  try {
    Slice::parse(slice);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::int32_t> chips_passed(const Router& router, Chip from, Chip to) {
  std::vector<std::int32_t> chips{from.value};
  for (const auto& [link, share] : router.route(from, to)) {
    chips.push_back(router.slice().links()[link.at()].to.value);
  }
  return chips;
}

TEST(Slice, MeshOfV5eHasNoWrap) {
  const Slice slice = Slice::parse("v5e:4x4");
  EXPECT_EQ(slice.chips(), 16U);
  EXPECT_FALSE(slice.wraps(0));
  // 2 directions * (3 * 4 along x + 4 * 3 along y)
  EXPECT_EQ(slice.links().size(), 48U);
  EXPECT_THAT(slice.coordinates(Chip(6)), ElementsAre(2, 1, 0));
  const std::int32_t at[] = {2, 1};
  EXPECT_EQ(slice.at(at), Chip(6));
  EXPECT_EQ(slice.outgoing(Chip(0)).size(), 2U);  // a corner
  EXPECT_EQ(slice.outgoing(Chip(5)).size(), 4U);  // inside
}

TEST(Slice, WrapsOnlyOnSixteenOnV5eAndV6e) {
  EXPECT_FALSE(Slice::parse("v6e:8x16").wraps(0));
  EXPECT_TRUE(Slice::parse("v6e:8x16").wraps(1));
  // 8 columns of 16 wrap (2 * 128), 16 rows of 8 do not (2 * 16 * 7).
  EXPECT_EQ(Slice::parse("v6e:8x16").links().size(), 480U);
}

TEST(Slice, WrapsInCubesOnV4V5pV7x) {
  EXPECT_TRUE(Slice::parse("v5p:4x4x4").wraps(2));
  EXPECT_FALSE(Slice::parse("v5p:2x2x4").wraps(2));
  EXPECT_EQ(Slice::parse("v4:4x4x4").links().size(), 384U);
}

TEST(Slice, V7xHasTwoDevicesOnAChip) {
  const Slice slice = Slice::parse("tpu7x:2x2x1");
  EXPECT_EQ(slice.name(), "v7x:2x2x1");
  EXPECT_EQ(slice.chips(), 8U);
  EXPECT_THAT(slice.coordinates(Chip(3)), ElementsAre(1, 0, 0, 1));
  const std::int32_t at[] = {1, 0, 0, 1};
  EXPECT_EQ(slice.at(at), Chip(3));
  // 4 chips in a square: 8 ICI links; 4 pairs of devices: 8 links between cores.
  EXPECT_EQ(slice.links().size(), 16U);
  // From core 0 of chip (0,0) to core 1 of chip (1,0): one ICI link, then across the chip.
  EXPECT_EQ(Router(slice).hops(Chip(0), Chip(3)), 2);
  EXPECT_EQ(Router(slice).hops(Chip(1), Chip(3)), 1);
}

TEST(Slice, CanonicalNameAndErrors) {
  EXPECT_EQ(Slice::parse("v5e:2x4+2x4").name(), "v5e:2x4+2x4");
  EXPECT_THAT(error_of("v9:2x2"), HasSubstr("v4, v5e, v5p, v6e, v7x"));
  EXPECT_THAT(error_of("v5e"), HasSubstr("no shape"));
  EXPECT_THAT(error_of("v5e:"), HasSubstr("is not a size"));
  EXPECT_THAT(error_of("v5e:3x4"), HasSubstr("1, 2, 4, 8, 16"));
  EXPECT_THAT(error_of("v5e:4x4x4"), HasSubstr("has 2 dimensions"));
  EXPECT_THAT(error_of("v5e:32x16"), HasSubstr("dimension of 32"));
  EXPECT_THAT(error_of("v5e:2x4+4x4"), HasSubstr("one shape"));
  EXPECT_THAT(error_of("v5e:2x4+"), HasSubstr("one shape"));
  EXPECT_THAT(error_of("v5e:99999999999x2"), HasSubstr("is not a size"));
  EXPECT_THAT(error_of("v5p:4x4x4_twisted"), HasSubstr("4x4x8"));
}

TEST(Slice, SlicesAreJoinedHostByHost) {
  const Slice slice = Slice::parse("v5e:4x4+4x4");
  EXPECT_EQ(slice.chips(), 32U);
  EXPECT_EQ(slice.hosts(), 8);  // four hosts of 2x2 chips in each
  EXPECT_EQ(slice.links().size(), 2 * 48U + 2 * 8U);
  EXPECT_THAT(slice.coordinates(Chip(17)), ElementsAre(1, 0, 0, 1));
  const std::vector<RoutedLink> route = Router(slice).route(Chip(0), Chip(31));
  ASSERT_EQ(route.size(), 2U);
  EXPECT_EQ(route[0].first, slice.uplink(0));
  EXPECT_EQ(route[1].first, slice.downlink(7));
}

TEST(Placement, ChecksTheBijection) {
  const Slice slice = Slice::parse("v5e:2x2");
  EXPECT_NO_THROW(check_placement(slice, row_major(slice)));
  EXPECT_THROW(check_placement(slice, {Chip(0), Chip(1), Chip(1), Chip(2)}), UserError);
  EXPECT_THROW(check_placement(slice, {Chip(0), Chip(1), Chip(2)}), UserError);
  EXPECT_THROW(check_placement(slice, {Chip(0), Chip(1), Chip(2), Chip(4)}), UserError);
  const std::vector<Coordinates> outside{{0, 0}, {1, 0}, {0, 1}, {2, 0}};
  EXPECT_THROW(placement_from_coordinates(slice, outside), UserError);
}

// 12 13 14 15
//  8  9 10 11
//  4  5  6  7
//  0  1  2  3     x to the right, y upwards
TEST(Router, GoesAlongXThenY) {
  const Slice slice = Slice::parse("v5e:4x4");
  EXPECT_THAT(chips_passed(Router(slice), Chip(0), Chip(10)), ElementsAre(0, 1, 2, 6, 10));
  EXPECT_THAT(chips_passed(Router(slice, {.highest_first = true}), Chip(0), Chip(10)),
              ElementsAre(0, 4, 8, 9, 10));
  EXPECT_THAT(chips_passed(Router(slice), Chip(7), Chip(7)), ElementsAre(7));
}

TEST(Router, TakesTheShortWayRoundAndBreaksTiesForward) {
  const Slice slice = Slice::parse("v6e:1x16");
  const Router router(slice);
  EXPECT_THAT(chips_passed(router, Chip(1), Chip(15)), ElementsAre(1, 0, 15));
  EXPECT_EQ(router.hops(Chip(0), Chip(8)), 8);
  EXPECT_EQ(chips_passed(router, Chip(0), Chip(8))[1], 1);
  EXPECT_EQ(chips_passed(router, Chip(8), Chip(0))[1], 9);  // also forward: the ring is not cut anywhere
  const Router split(slice, {.split_ties = true});
  const std::vector<RoutedLink> both = split.route(Chip(0), Chip(8));
  ASSERT_EQ(both.size(), 16U);
  EXPECT_EQ(both.front().second, 0.5);
}

TEST(Symmetry, OfASquareAndARectangle) {
  const Slice square = Slice::parse("v5e:4x4");
  EXPECT_EQ(point_symmetries(square).size(), 8U);
  EXPECT_EQ(symmetries(square).size(), 4U);  // transpositions turn XY routes into YX ones
  EXPECT_EQ(point_symmetries(Slice::parse("v5e:2x4")).size(), 4U);
  EXPECT_EQ(point_symmetries(Slice::parse("v5p:4x4x4")).size(), 48U);
  EXPECT_EQ(translations(Slice::parse("v6e:16x16")).size(), 256U);
  EXPECT_EQ(translations(square).size(), 1U);
}

}  // namespace
}  // namespace aoizora::topology
