#include "aoizora/place/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aoizora/place/synthetic_testing.h"

namespace aoizora::place {
namespace {

using namespace testing;  // NOLINT: the helpers of synthetic_testing.h
using topology::Placement;
using topology::Slice;

TEST(DrawAxes, BlocksAndWhatLiesAcrossThem) {
  const Slice slice = Slice::parse("v5e:4x4");
  Placement placement;
  for (const std::int32_t chip : {0, 1, 5, 4, 2, 3, 7, 6, 8, 9, 13, 12, 10, 11, 15, 14})
    placement.emplace_back(chip);
  EXPECT_EQ(draw_axes(placement, slice, mesh_of({4, 4})),
            "axis a (letter: group, number: place along a):\n"
            "  A0  B0  A1  B1\n"
            "\n"
            "  D0  C0  D1  C1\n"
            "\n"
            "  A2  B2  A3  B3\n"
            "\n"
            "  D2  C2  D3  C3\n"
            "\n"
            "axis b (letter: group, number: place along b):\n"
            "  A0--A1  B0--B1\n"
            "  |   |   |   |\n"
            "  A3--A2  B3--B2\n"
            "\n"
            "  C0--C1  D0--D1\n"
            "  |   |   |   |\n"
            "  C3--C2  D3--D2\n"
            "\n");
}

TEST(DrawAxes, EveryPlaneOfThreeDimensions) {
  const Slice slice = Slice::parse("v5p:2x2x2");
  const std::string text = draw_axes(topology::row_major(slice), slice, mesh_of({8}));
  EXPECT_EQ(text,
            "axis a (letter: group, number: place along a):\n"
            " plane (x,y,0):\n"
            "  A0--A1\n"
            "\n"
            "  A2--A3\n"
            " plane (x,y,1):\n"
            "  A4--A5\n"
            "\n"
            "  A6--A7\n"
            "\n");
}

}  // namespace
}  // namespace aoizora::place
