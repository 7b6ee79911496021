#include "aoizora/network/calibrate.h"

#include <gmock/gmock.h>

#include "aoizora/base/error.h"
#include "aoizora/network/cost_service.h"

namespace aoizora::network {
namespace {

constexpr const char* kHeader = "name,kind,slice,mesh,axis,bytes,time_us\n";

/// Points that the model itself makes with other constants: the fit must find those constants.
std::vector<MeasuredPoint> made_points(const Profile& truth) {
  std::vector<MeasuredPoint> points = parse_points(
      std::string(kHeader) +
          "small,all-gather,v5e:4x8,a=8;b=4,b,100000,1\nlarge,all-gather,v5e:4x8,a=8;b=4,b,30000000,1\n"
          "block,all-reduce,v5e:4x4,a=16,a,5000000,1\nall,all-to-all,v5e:2x4,a=8,a,3000000,1\n"
          "far,permute,v5e:1x8,a=8,a,200000,1\n",
      "points.csv");
  for (MeasuredPoint& point : points) {
    point.time = Model(point.slice, truth).cost(point.collective, point.placement).time;
  }
  return points;
}

TEST(Calibrate, FindsTheConstantsThatMadeThePoints) {
  Profile truth = Profile::builtin("v5e");
  truth.launch = Micros(1.5);
  truth.hop_latency = Micros(0.4);
  truth.link_bandwidth = gigabytes_per_second(38);
  const Fitted all[] = {Fitted::kLaunch, Fitted::kHopLatency, Fitted::kLinkBandwidth};
  const Calibration fit = calibrate(Profile::builtin("v5e"), made_points(truth), all);
  EXPECT_EQ(fit.fitted.size(), 3U);
  EXPECT_NEAR(fit.profile.launch.value, 1.5, 1e-6);
  EXPECT_NEAR(fit.profile.hop_latency.value, 0.4, 1e-6);
  EXPECT_NEAR(fit.profile.link_bandwidth.value, 38'000, 1e-2);
  for (const PointResult& point : fit.points) {
    ASSERT_TRUE(point.left_out_valid);
    EXPECT_NEAR(point.left_out.value, point.measured.value, 1e-6 * point.measured.value);
  }
}

TEST(Calibrate, KeepsWhatThePointsCannotTell) {
  // One shape: launches and hops are always in the same proportion.
  const auto points =
      parse_points(std::string(kHeader) +
                       "a,all-gather,v5e:1x4,a=4,a,1000000,40\nb,all-gather,v5e:1x4,a=4,a,2000000,60\n"
                       "c,all-gather,v5e:1x4,a=4,a,4000000,100\n",
                   "points.csv");
  const Fitted all[] = {Fitted::kLaunch, Fitted::kHopLatency, Fitted::kLinkBandwidth};
  const Calibration fit = calibrate(Profile::builtin("v5e"), points, all);
  EXPECT_EQ(fit.fitted.size(), 2U);
  EXPECT_THAT(fit.note, ::testing::HasSubstr("hop_latency kept"));
  // 20 us per megabyte of which 3/4 cross the busiest link: 37.5 GB/s.
  EXPECT_NEAR(fit.profile.link_bandwidth.value, 37'500, 1);
}

TEST(Calibrate, BadPointsAreNamedByLine) {
  const auto message = [](const std::string& lines) {
    try {
      parse_points(kHeader + lines, "p.csv");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message("a,all-gather,v5e:1x4,a=4,a,1000000\n"),
              ::testing::HasSubstr("p.csv:2:1: error: 6 fields"));
  EXPECT_THAT(message("a,gather,v5e:1x4,a=4,a,1,1\n"), ::testing::HasSubstr("no collective `gather`"));
  EXPECT_THAT(message("a,all-gather,v5e:1x4,a=4,b,1,1\n"), ::testing::HasSubstr("no axis `b`"));
  EXPECT_THAT(message("a,all-gather,v5e:1x4,a=8,a,1,1\n"), ::testing::HasSubstr("8 positions"));
  EXPECT_THAT(message("a,all-gather,v5e:1x4,a=4,a,1,-3\n"), ::testing::HasSubstr("above zero"));
  EXPECT_THAT(message(""), ::testing::HasSubstr("no points"));
}

TEST(Cost, ConcurrentCopiesShareTheLinks) {
  const std::string answer = cost_service(
      R"({"kind":"all-gather","slice":"v5e:4x4","mesh":[["a",4],["b",4]],"axes":["b"],"bytes":42750000,
          "concurrent":2})",
      true);
  // Line of 4: 3/4 * 42.75 MB / 42.75 GB/s = 750 us, twice, and 3 launches and 5 hops: 5.75 us.
  EXPECT_THAT(answer, ::testing::HasSubstr("\"time_us\": 1505.75"));
  EXPECT_THAT(answer, ::testing::HasSubstr("\"groups\": 4"));
}

TEST(Cost, GroupsAreAlongTheAxis) {
  const Collective rows = collective_over("all-gather", {{"a", 2}, {"b", 3}}, {"a"}, Bytes(1), 6);
  ASSERT_EQ(rows.groups.size(), 3U);
  EXPECT_EQ(rows.groups[1], (std::vector<Partition>{Partition(1), Partition(4)}));
  EXPECT_EQ(collective_over("permute", {{"a", 2}, {"b", 3}}, {"b"}, Bytes(1), 6).pairs.size(), 6U);
}

}  // namespace
}  // namespace aoizora::network
