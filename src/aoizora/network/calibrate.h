#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/network/model.h"

/// Fits a profile's network constants to measured points.
namespace aoizora::network {

/// One measured collective.
struct MeasuredPoint {
  std::string name;
  topology::Slice slice;
  Collective collective;
  topology::Placement placement;
  Micros time;
};

/// The constants that are fitted: the model's time of a collective is linear in launch, hop latency and
/// 1 / link bandwidth, so the fit is a linear least squares, with no start value and one answer.
enum class Fitted : std::uint8_t { kLaunch, kHopLatency, kLinkBandwidth };

struct PointResult {
  Micros measured;
  Micros fitted;                // by constants fitted to all points: not a validation
  Micros left_out;              // by constants fitted to all other points
  bool left_out_valid = false;  // the others determine the constants
};

struct Calibration {
  Profile profile;  // the one given, with the fitted constants and where they come from
  std::vector<Fitted> fitted;
  std::vector<PointResult> points;
  std::string note;  // constants that the points could not determine, and were kept
};

/// Least squares of the relative error, constants not negative (every subset of constants at zero is tried,
/// Lawson & Hanson's problem NNLS at a size where that is exact). A constant that the points cannot tell from
/// the others is kept as it is in `start`. UserError when there are fewer points than constants.
Calibration calibrate(const Profile& start, std::span<const MeasuredPoint> points,
                      std::span<const Fitted> fitted);

/// Points from CSV with the header
///   name,kind,slice,mesh,axis,bytes,time_us
/// where mesh is `a=4;b=4`, axis one or more axes separated by `;`. Lines that begin with # are comments.
/// Placements are row-major. UserError with file and line.
std::vector<MeasuredPoint> parse_points(std::string_view csv, const std::string& file);

std::string_view fitted_name(Fitted constant);

/// `aoizora calibrate`: JSON request {"points": {"file", "text"}, "profile": {"file", "text"} |
/// null, "fit": [names]} to JSON {"profile": ..., "points": [...], "constants_fitted", "error",
/// ...}.
std::string calibrate_service(const std::string& request);
/// The table that a person reads, of what calibrate_service returned.
std::string calibration_text(const std::string& json);

}  // namespace aoizora::network
