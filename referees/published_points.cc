// Points A to J of the published measurements (facts/tpu.md) against the model, with the number of fitted
// constants beside each error. A point that was used to fit never counts as validation.
//
//   cmake --preset referees && cmake --build build/referees --target published_points
//   build/referees/referees/published_points

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "aoizora/network/calibrate.h"
#include "aoizora/network/cost_service.h"

namespace aoizora::referees {
namespace {

using network::Calibration;
using network::Fitted;
using network::MeasuredPoint;
using network::Model;
using network::Profile;

struct Where {
  std::string slice;
  std::vector<network::MeshAxis> mesh;
  std::vector<std::string> axes;
};

MeasuredPoint point(std::string name, const std::string& kind, const Where& where, double bytes,
                    double time_us) {
  topology::Slice slice = topology::Slice::parse(where.slice);
  network::Collective collective =
      network::collective_over(kind, where.mesh, where.axes, Bytes(std::llround(bytes)), slice.chips());
  topology::Placement placement = topology::row_major(slice);
  return {std::move(name), std::move(slice), std::move(collective), std::move(placement), Micros(time_us)};
}

double predict(const MeasuredPoint& one, const Profile& profile) {
  return Model(one.slice, profile).cost(one.collective, one.placement).time.value;
}

// A, B: scaling book, sharding.md, quiz 2; axis of 4 of an 8x4 slice, no wrap. x has 8 chips and is fastest,
// so row-major mesh (a = 4 along y, b = 8 along x). C: the axis of 16 of 8x16 wraps; 95 % of 45 GB/s one way
// at about 10 MB is V (X-1)/X / 2 / (0.95 * 45 GB/s).
const Where kLineOf4{"v5e:8x4", {{"a", 4}, {"b", 8}}, {"a"}};
const Where kRingOf16{"v5e:8x16", {{"a", 16}, {"b", 8}}, {"a"}};

std::vector<MeasuredPoint> v5e_points() {
  const double ring = 10e6 * 15 / 16 / 2 / (0.95 * 45e3);
  return {point("A line of 4, 33.55 MB", "all-gather", kLineOf4, 33.55e6, 680),
          point("B line of 4, 131 kB", "all-gather", kLineOf4, 131e3, 8),
          point("C ring of 16, 10 MB", "all-gather", kRingOf16, 10e6, ring)};
}

// D: v7x 2x2x1, groups of 4 = the same core of four chips, so two groups share the chips' links. Bytes are
// received per chip: two devices, each (n-1)/n of its array. E: 2x2x2, groups within a plane.
std::vector<MeasuredPoint> v7x_points(const std::string& id, const Where& where,
                                      const std::vector<double>& rates) {
  constexpr double kMegabytes[] = {1.573, 6.291, 25.17, 100.7, 402.7};
  std::vector<MeasuredPoint> points;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double received = kMegabytes[i] * 1e6;
    points.push_back(point(fmt::format("{} {:.3g} MB a chip", id, kMegabytes[i]), "all-gather", where,
                           received / 2 * 4 / 3, received / (rates[i] * 1e3)));
  }
  return points;
}

void heading(const std::string& text) {
  fmt::print("\n{}\n  {:<26} {:>12} {:>12} {:>8} {:>12} {:>8}\n", text, "point", "measured us",
             "predicted us", "error", "left out us", "error");
}

void row(const std::string& name, double measured, double predicted, std::optional<double> left_out) {
  fmt::print("  {:<26} {:>12.1f} {:>12.1f} {:>+7.1f}%", name, measured, predicted,
             100 * (predicted / measured - 1));
  if (left_out) {
    fmt::print(" {:>12.1f} {:>+7.1f}%", *left_out, 100 * (*left_out / measured - 1));
  }
  fmt::print("\n");
}

Calibration fit_and_print(const std::string& title, const std::vector<MeasuredPoint>& points) {
  const Fitted constants[] = {Fitted::kLinkBandwidth, Fitted::kLaunch};
  Calibration fit = network::calibrate(Profile::builtin(points.front().slice.kind()), points, constants);
  heading(fmt::format(
      "{}: {} constants fitted to {} points (link {:.1f} GB/s, launch {:.2f} us, hop {:.2f} us kept)", title,
      fit.fitted.size(), points.size(), fit.profile.link_bandwidth.value / 1e3, fit.profile.launch.value,
      fit.profile.hop_latency.value));
  for (std::size_t p = 0; p < points.size(); ++p) {
    const network::PointResult& one = fit.points[p];
    row(points[p].name, one.measured.value, one.fitted.value,
        one.left_out_valid ? std::optional(one.left_out.value) : std::nullopt);
  }
  return fit;
}

void print_builtin() {
  heading("A to C with the built-in v5e profile: link bandwidth is C's, launch is B's; A was not used");
  const Profile profile = Profile::builtin("v5e");
  for (const MeasuredPoint& one : v5e_points()) {
    row(one.name, one.time.value, predict(one, profile), std::nullopt);
  }
}

// F: all-to-all over 8 of the 32 devices of v7x 2x2x4; the source does not say which 8, nor whether GB/s
// counts a chip's or a device's bytes, so both layouts are shown and neither is validation.
void print_all_to_all() {
  fmt::print(
      "\nF all-to-all over 8 on v7x 2x2x4, 100 MB a device, GB/s sent per device (measured 68 for 1-D and "
      "2-D,\n"
      "  43 for 3-D; the source names neither groups nor the unit: shown, not counted)\n");
  const std::pair<const char*, Where> layouts[] = {
      {"z and core", {"v7x:2x2x4", {{"z", 4}, {"yx", 4}, {"core", 2}}, {"z", "core"}}},
      {"x, y and core", {"v7x:2x2x4", {{"z", 4}, {"yxcore", 8}}, {"yxcore"}}},
      {"all 32 devices", {"v7x:2x2x4", {{"all", 32}}, {"all"}}}};
  for (const auto& [name, where] : layouts) {
    const MeasuredPoint one = point(name, "all-to-all", where, 100e6, 1);
    const double n = static_cast<double>(one.collective.groups[0].size());
    fmt::print("  {:<26} {:>12.1f}\n", name,
               100e6 * (n - 1) / n / predict(one, Profile::builtin("v7x")) / 1e3);
  }
}

// G and H are what the v5p and v6e constants were taken from: shown for completeness only.
void print_sources() {
  fmt::print(
      "\nG v5p remote copy: {:.0f} GB/s a link, the profile's source (1 constant, 1 point: no validation)\n",
      Profile::builtin("v5p").link_bandwidth.value / 1e3);
  const Profile v6e = Profile::builtin("v6e");
  const MeasuredPoint step = point("H", "permute", {"v6e:1x16", {{"a", 16}}, {"a"}}, 8.68e6, 2.29 + 100);
  fmt::print("H v6e ring step of 8.68 MB: {:.2f} us, source {:.2f} (2 constants, 1 line: no validation)\n",
             predict(step, v6e), step.time.value);
}

// I: same HLO, axis of 8 without wrap, two ring orders: 4.632 > 4.138 s, -10.7 %. J: -4 % by an axis order.
// The programs are not public, so only what the order does to the collective itself can be said: its sign,
// and how much of the step must have been that collective for the step to gain what it gained.
void print_orders() {
  const topology::Slice slice = topology::Slice::parse("v6e:8x16");
  const Model model(slice, Profile::builtin("v6e"));
  const Where where{"v6e:8x16", {{"a", 16}, {"b", 8}}, {"b"}};
  MeasuredPoint rows = point("I", "all-gather", where, 100e6, 1);
  rows.collective.hint.has_reordering_map = false;  // the ring follows the device order
  const double line = model.cost(rows.collective, rows.placement).time.value;
  // Alternating columns: 0 2 4 6 7 5 3 1, no hop above two, and 2x4 blocks, a ring of neighbours.
  topology::Placement folded = rows.placement;
  topology::Placement shuffled = rows.placement;
  topology::Placement blocks = rows.placement;
  constexpr std::int32_t kFold[] = {0, 2, 4, 6, 7, 5, 3, 1};
  constexpr std::int32_t kJumps[] = {0, 4, 1, 5, 2, 6, 3, 7};
  constexpr std::int32_t kRing[][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 1}, {2, 1}, {1, 1}, {0, 1}};
  for (std::int32_t p = 0; p < 128; ++p) {
    folded[static_cast<std::size_t>(p)] = Chip(p / 8 * 8 + kFold[p % 8]);
    shuffled[static_cast<std::size_t>(p)] = Chip(p / 8 * 8 + kJumps[p % 8]);
    const std::int32_t block = p / 8;
    const std::int32_t at[] = {block % 2 * 4 + kRing[p % 8][0], block / 2 * 2 + kRing[p % 8][1]};
    blocks[static_cast<std::size_t>(p)] = slice.at(at);
  }
  fmt::print(
      "\nI v6e 8x16, ring of 8 without wrap, 100 MB all-gather by ring order (0 constants fitted here):\n");
  for (const auto& [name, placement] : {std::pair{"line 0 1 2 .. 7", &rows.placement},
                                        {"folded 0 2 4 6 7 5 3 1", &folded},
                                        {"jumping 0 4 1 5 ..", &shuffled},
                                        {"2x4 blocks", &blocks}}) {
    const double time = model.cost(rows.collective, *placement).time.value;
    fmt::print("  {:<26} {:>12.1f} us, {:.2f} of the line\n", name, time, time / line);
  }
  fmt::print(
      "  measured on the whole step: 4.632 > 4.138 s. Sign: an order with nearer neighbours is faster, as\n"
      "  measured. Size: by a change from line to blocks the step gains 10.7 % if 21 % of it waited for\n"
      "  such rings; the program is not public, so the share, and with it the size, cannot be checked.\n"
      "J tpu7x, two axis orders, -4 %: sign only, as I.\n");
}

int run() {
  print_builtin();
  fit_and_print("A to C, calibrated", v5e_points());
  const Where plane{"v7x:2x2x1", {{"chip", 4}, {"core", 2}}, {"chip"}};
  const Where cube{"v7x:2x2x2", {{"z", 2}, {"chip", 4}, {"core", 2}}, {"chip"}};
  const Calibration d =
      fit_and_print("D, calibrated", v7x_points("D", plane, {71.8, 129.2, 161.9, 174.8, 178.8}));
  heading("E by D's constants (2 constants, fitted to D only: validation)");
  for (const MeasuredPoint& one : v7x_points("E", cube, {69.5, 127.4, 162.1, 174.7, 178.8})) {
    row(one.name, one.time.value, predict(one, d.profile), std::nullopt);
  }
  print_all_to_all();
  print_sources();
  print_orders();
  return 0;
}

}  // namespace
}  // namespace aoizora::referees

int main() { return aoizora::referees::run(); }
