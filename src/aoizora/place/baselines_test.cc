#include "aoizora/place/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"

namespace aoizora::place {
namespace {

using ::testing::HasSubstr;
using topology::Placement;
using topology::Slice;

LogicalMesh mesh_of(const std::vector<std::int32_t>& shape) {
  LogicalMesh mesh;
  mesh.shape = shape;
  for (std::size_t i = 0; i < shape.size(); ++i) mesh.axes.push_back("a" + std::to_string(i));
  return mesh;
}

std::vector<std::int32_t> numbers(const Placement& placement) {
  std::vector<std::int32_t> chips;
  for (const Chip chip : placement) chips.push_back(chip.value);
  return chips;
}

/// Every slice and mesh shape of tests/cases/device_mesh.json, which JAX itself wrote (--update there).
TEST(CreateDeviceMesh, IsWhatJaxDoes) {
  const auto golden = nlohmann::json::parse(read_text(AOIZORA_CASES_DIR "/device_mesh.json"));
  std::size_t orders = 0, refusals = 0;
  for (const auto& entry : golden["cases"]) {
    SCOPED_TRACE(entry["slice"].get<std::string>() + " " + entry["mesh"].dump());
    const Slice slice = Slice::parse(entry["slice"].get<std::string>());
    const LogicalMesh mesh = mesh_of(entry["mesh"]);
    const DeviceMesh made = create_device_mesh(slice, mesh);
    if (entry.contains("refused")) {
      ++refusals;
      EXPECT_FALSE(made.placement);
      EXPECT_THAT(made.refusal, HasSubstr("allow_split_physical_axes"));
      EXPECT_EQ(numbers(default_split(slice, mesh)), entry["split"].get<std::vector<int>>());
    } else {
      ++orders;
      ASSERT_TRUE(made.placement) << made.refusal;
      EXPECT_EQ(numbers(*made.placement), entry["order"].get<std::vector<int>>());
      EXPECT_EQ(numbers(default_split(slice, mesh)), entry["order"].get<std::vector<int>>());
    }
  }
  EXPECT_GT(orders, 200U);
  EXPECT_GT(refusals, 100U);
}

TEST(CreateDeviceMesh, RingsOfTheDefaultOn2x4AreNotRings) {
  // libtpu's 2x4 has x in {0,1} and y in {0..3}; the fixed order was written for 4 wide rows:
  //   0 1      the order 0 1 2 3 7 6 5 4 makes hops
  //   2 3      1 2 1 2 ... instead of 1 1 1 1
  //   4 5
  //   6 7
  const Slice slice = Slice::parse("v5e:2x4");
  const Placement placement = *create_device_mesh(slice, mesh_of({8})).placement;
  std::vector<std::int32_t> hops;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto& a = slice.coordinates(placement[i]);
    const auto& b = slice.coordinates(placement[(i + 1) % 8]);
    hops.push_back(std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]));
  }
  EXPECT_EQ(hops, (std::vector<std::int32_t>{1, 2, 1, 2, 1, 2, 1, 2}));
}

TEST(CreateDeviceMesh, SaysWhichSizesFit) {
  const Slice slice = Slice::parse("v5e:4x4");
  try {
    create_device_mesh(slice, mesh_of({2, 4}));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a0=2,a1=4 has 8 positions but v5e:4x4 has 16 chips"));
  }
  EXPECT_THROW(mesh_size({{"a"}, {0}}), UserError);
  EXPECT_THROW(mesh_size({{"a", "b"}, {2}}), UserError);
  EXPECT_THROW(mesh_size({{}, {}}), UserError);
}

}  // namespace
}  // namespace aoizora::place
