#include "aoizora/network/calibrate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "aoizora/base/error.h"
#include "aoizora/network/cost_service.h"

namespace aoizora::network {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::array<double, 3>;  // launches, hops, bytes: time = their product with the constants

constexpr Fitted kAll[] = {Fitted::kLaunch, Fitted::kHopLatency, Fitted::kLinkBandwidth};

std::size_t index_of(Fitted constant) { return static_cast<std::size_t>(constant); }

/// The model asked thrice, each time with one constant at 1 and the others at nothing.
Row features(const MeasuredPoint& point, const Profile& start) {
  Profile profile = start;
  const auto time = [&](double launch, double hop, double bandwidth) {
    profile.launch = Micros(launch);
    profile.hop_latency = Micros(hop);
    profile.link_bandwidth = BytesPerMicro(bandwidth);
    return Model(point.slice, profile).cost(point.collective, point.placement).time.value;
  };
  constexpr double kInfinite = 1e30;
  return {time(1, 0, kInfinite), time(0, 1, kInfinite), time(0, 0, 1)};
}

Row constants_of(const Profile& profile) {
  return {profile.launch.value, profile.hop_latency.value, 1 / profile.link_bandwidth.value};
}

double product(const Row& a, const Row& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/// Solves the normal equations of the columns in `free` by Gauss and Jordan; nothing when they are singular.
std::optional<Row> solve(std::span<const Row> rows, std::span<const double> target,
                         const std::vector<std::size_t>& free) {
  const std::size_t n = free.size();
  std::array<std::array<double, 4>, 3> matrix{};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        matrix[i][j] += rows[r][free[i]] * rows[r][free[j]];
      }
      matrix[i][n] += rows[r][free[i]] * target[r];
    }
  }
  // Scaled to a unit diagonal, so that one threshold means the same for launches and bytes.
  std::array<double, 3> scale{};
  for (std::size_t i = 0; i < n; ++i) {
    if (matrix[i][i] <= 0) {
      return std::nullopt;
    }
    scale[i] = 1 / std::sqrt(matrix[i][i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      matrix[i][j] *= scale[i] * scale[j];
    }
    matrix[i][n] *= scale[i];
  }
  constexpr double kSingular = 1e-9;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t k = i; k < n; ++k) {
      pivot = std::abs(matrix[k][i]) > std::abs(matrix[pivot][i]) ? k : pivot;
    }
    std::swap(matrix[i], matrix[pivot]);
    if (std::abs(matrix[i][i]) < kSingular) {
      return std::nullopt;
    }
    for (std::size_t k = 0; k < n; ++k) {
      const double factor = k == i ? 0 : matrix[k][i] / matrix[i][i];
      for (std::size_t j = i; j <= n; ++j) {
        matrix[k][j] -= factor * matrix[i][j];
      }
    }
  }
  Row solution{};
  for (std::size_t i = 0; i < n; ++i) {
    solution[free[i]] = matrix[i][n] / matrix[i][i] * scale[i];
  }
  return solution;
}

struct Problem {
  std::vector<Row> rows;  // divided by the measured time: the error is relative
  Row start{};

  /// What is left to explain by the free constants: 1 less what the kept ones say.
  std::vector<double> targets(const std::vector<std::size_t>& fitted, std::size_t skip) const {
    std::vector<double> targets;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double target = 1;
      for (std::size_t i = 0; i < 3; ++i) {
        const bool kept = std::find(fitted.begin(), fitted.end(), i) == fitted.end();
        target -= kept ? rows[r][i] * start[i] : 0;
      }
      if (r != skip) {
        targets.push_back(target);
      }
    }
    return targets;
  }

  /// The best constants, none negative; nothing when the points without `skip` do not determine them.
  std::optional<Row> fit(const std::vector<std::size_t>& fitted, std::size_t skip) const {
    std::vector<Row> used;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (r != skip) {
        used.push_back(rows[r]);
      }
    }
    const std::vector<double> target = targets(fitted, skip);
    if (used.size() < fitted.size() || !solve(used, target, fitted)) {
      return std::nullopt;
    }
    std::optional<Row> best;
    double least = 0;
    for (std::uint32_t subset = 0; subset < 1U << fitted.size(); ++subset) {
      std::vector<std::size_t> free;
      for (std::size_t i = 0; i < fitted.size(); ++i) {
        if ((subset >> i & 1U) != 0) {
          free.push_back(fitted[i]);
        }
      }
      const std::optional<Row> found = solve(used, target, free);
      if (!found || (*found)[0] < 0 || (*found)[1] < 0 || (*found)[2] < 0) {
        continue;
      }
      double error = 0;
      for (std::size_t r = 0; r < used.size(); ++r) {
        error += std::pow(product(used[r], *found) - target[r], 2);
      }
      if (!best || error < least) {
        best = found;
        least = error;
      }
    }
    return best;
  }

  Row with_kept(const Row& found, const std::vector<std::size_t>& fitted) const {
    Row constants = start;
    for (const std::size_t i : fitted) {
      constants[i] = found[i];
    }
    return constants;
  }
};

Profile fitted_profile(const Profile& start, const Row& constants, const std::vector<std::size_t>& fitted,
                       std::size_t points) {
  Profile profile = start;
  profile.name = start.kind + "-calibrated";
  const std::string source =
      fmt::format("[C] fitted to {} measured points, {} constants at once", points, fitted.size());
  for (const std::size_t i : fitted) {
    if (i == index_of(Fitted::kLaunch)) {
      profile.launch = Micros(constants[i]);
    } else if (i == index_of(Fitted::kHopLatency)) {
      profile.hop_latency = Micros(constants[i]);
    } else if (constants[i] > 0) {
      profile.link_bandwidth = BytesPerMicro(1 / constants[i]);
    } else {
      user_error("the points fit an infinite bandwidth; add larger ones");
    }
    profile.sources[std::string(fitted_name(static_cast<Fitted>(i)))] = source;
  }
  return profile;
}

}  // namespace

std::string_view fitted_name(Fitted constant) {
  switch (constant) {
    case Fitted::kLaunch:
      return "launch";
    case Fitted::kHopLatency:
      return "hop_latency";
    case Fitted::kLinkBandwidth:
      return "link_bandwidth";
  }
  AOIZORA_CHECK(false, "no fitted constant {}", static_cast<int>(constant));
}

Calibration calibrate(const Profile& start, std::span<const MeasuredPoint> points,
                      std::span<const Fitted> wanted) {
  Problem problem{{}, constants_of(start)};
  std::vector<Row> plain;
  for (const MeasuredPoint& point : points) {
    plain.push_back(features(point, start));
    Row row = plain.back();
    for (double& entry : row) {
      entry /= point.time.value;
    }
    problem.rows.push_back(row);
  }
  const std::size_t none = points.size();
  Calibration result{start, {}, {}, ""};
  std::vector<std::size_t> fitted;
  // Bandwidth first, then launch, then hops: what the points cannot tell from those before is kept.
  for (const Fitted constant : {Fitted::kLinkBandwidth, Fitted::kLaunch, Fitted::kHopLatency}) {
    if (std::find(wanted.begin(), wanted.end(), constant) == wanted.end()) {
      continue;
    }
    std::vector<std::size_t> more = fitted;
    more.push_back(index_of(constant));
    if (problem.fit(more, none)) {
      fitted = more;
      result.fitted.push_back(constant);
    } else {
      result.note += fmt::format("{}{} kept: the points do not determine it", result.note.empty() ? "" : "; ",
                                 fitted_name(constant));
    }
  }
  if (fitted.empty()) {
    user_error("{} points determine none of the constants; measure more sizes or shapes", points.size());
  }
  const Row constants = problem.with_kept(*problem.fit(fitted, none), fitted);
  result.profile = fitted_profile(start, constants, fitted, points.size());
  for (std::size_t p = 0; p < points.size(); ++p) {
    PointResult one{points[p].time, Micros(product(plain[p], constants)), Micros(0), false};
    if (const std::optional<Row> others = problem.fit(fitted, p)) {
      one.left_out = Micros(product(plain[p], problem.with_kept(*others, fitted)));
      one.left_out_valid = true;
    }
    result.points.push_back(one);
  }
  return result;
}

namespace {

std::vector<std::string> split(std::string_view line, char separator) {
  std::vector<std::string> fields;
  while (true) {
    const std::size_t end = line.find(separator);
    fields.emplace_back(line.substr(0, end));
    if (end == std::string_view::npos) {
      return fields;
    }
    line.remove_prefix(end + 1);
  }
}

double number(const std::string& text, const char* what) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value) || value <= 0) {
    user_error("{} is `{}`; it must be a number above zero", what, text);
  }
  return value;
}

MeasuredPoint parse_point(const std::vector<std::string>& fields) {
  std::vector<MeshAxis> mesh;
  for (const std::string& axis : split(fields[3], ';')) {
    const std::vector<std::string> parts = split(axis, '=');
    if (parts.size() != 2 || parts[0].empty()) {
      user_error("mesh is `{}`; it must be like a=4;b=4", fields[3]);
    }
    mesh.push_back({parts[0], static_cast<std::int32_t>(std::min(number(parts[1], "a mesh size"), 1e6))});
  }
  topology::Slice slice = topology::Slice::parse(fields[2]);
  Collective collective = collective_over(
      fields[1], mesh, split(fields[4], ';'),
      Bytes(static_cast<std::int64_t>(std::min(number(fields[5], "bytes"), 1e15))), slice.chips());
  topology::Placement placement = topology::row_major(slice);
  return {fields[0], std::move(slice), std::move(collective), std::move(placement),
          Micros(number(fields[6], "time_us"))};
}

}  // namespace

std::vector<MeasuredPoint> parse_points(std::string_view csv, const std::string& file) {
  constexpr std::string_view kHeader = "name,kind,slice,mesh,axis,bytes,time_us";
  std::vector<MeasuredPoint> points;
  bool header = false;
  Position at{0, 1};
  for (std::string line : split(csv, '\n')) {
    ++at.line;
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    if (!header) {
      if (line != kHeader) {
        throw UserError(file, at, fmt::format("the first line must be `{}`", kHeader));
      }
      header = true;
      continue;
    }
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() != 7) {
      throw UserError(file, at, fmt::format("{} fields, not 7: {}", fields.size(), kHeader));
    }
    try {
      points.push_back(parse_point(fields));
    } catch (const UserError& error) {
      throw UserError(file, at, error.message());
    }
  }
  if (points.empty()) {
    throw UserError(fmt::format("{}: no points", file));
  }
  return points;
}

std::string calibrate_service(const std::string& request_text) {
  const Json request = Json::parse(request_text);
  const std::vector<MeasuredPoint> points = parse_points(request.at("points").at("text").get<std::string>(),
                                                         request.at("points").at("file").get<std::string>());
  const std::string kind = points.front().slice.kind();
  for (const MeasuredPoint& point : points) {
    if (point.slice.kind() != kind) {
      user_error("the points are of {} and {}; calibrate one chip kind at a time", kind, point.slice.kind());
    }
  }
  const Json file = request.value("profile", Json());
  const Profile start = file.is_object() ? Profile::parse(file.at("text").get<std::string>(),
                                                          file.at("file").get<std::string>())
                                         : Profile::builtin(kind);
  std::vector<Fitted> wanted;
  for (const std::string& name : request.at("fit").get<std::vector<std::string>>()) {
    const auto found =
        std::find_if(std::begin(kAll), std::end(kAll), [&](Fitted one) { return fitted_name(one) == name; });
    if (found == std::end(kAll)) {
      user_error("`{}` cannot be fitted; launch, hop_latency and link_bandwidth can", name);
    }
    wanted.push_back(*found);
  }
  const Calibration fit = calibrate(start, points, wanted);
  Json json;
  json["profile"] = Json::parse(fit.profile.to_json());
  json["constants_fitted"] = Json::array();
  for (const Fitted constant : fit.fitted) {
    json["constants_fitted"].push_back(fitted_name(constant));
  }
  json["note"] = fit.note;
  json["points"] = Json::array();
  for (std::size_t p = 0; p < points.size(); ++p) {
    const PointResult& one = fit.points[p];
    Json row{{"name", points[p].name},
             {"measured_us", one.measured.value},
             {"fitted_us", one.fitted.value},
             {"fitted_error", one.fitted / one.measured - 1}};
    row["left_out_us"] = one.left_out_valid ? Json(one.left_out.value) : Json(nullptr);
    row["left_out_error"] = one.left_out_valid ? Json(one.left_out / one.measured - 1) : Json(nullptr);
    json["points"].push_back(std::move(row));
  }
  return json.dump(2) + "\n";
}

std::string calibration_text(const std::string& text) {
  const Json json = Json::parse(text);
  std::string out = fmt::format("{} constants fitted to {} points: {}\n", json["constants_fitted"].size(),
                                json["points"].size(),
                                fmt::join(json["constants_fitted"].get<std::vector<std::string>>(), ", "));
  for (const Json& name : json["constants_fitted"]) {
    const Json& constant = json["profile"]["constants"][name.get<std::string>()];
    out += fmt::format("  {} {:.4g} {}\n", name.get<std::string>(), constant["value"].get<double>(),
                       constant["unit"].get<std::string>());
  }
  if (!json["note"].get<std::string>().empty()) {
    out += fmt::format("  {}\n", json["note"].get<std::string>());
  }
  out += fmt::format("\n{:<28} {:>12} {:>12} {:>8} {:>12} {:>8}\n", "point", "measured us", "fitted us",
                     "error", "left out us", "error");
  for (const Json& point : json["points"]) {
    out += fmt::format("{:<28} {:>12.2f} {:>12.2f} {:>+7.1f}%", point["name"].get<std::string>(),
                       point["measured_us"].get<double>(), point["fitted_us"].get<double>(),
                       100 * point["fitted_error"].get<double>());
    out += point["left_out_us"].is_null()
               ? fmt::format(" {:>12} {:>8}\n", "-", "-")
               : fmt::format(" {:>12.2f} {:>+7.1f}%\n", point["left_out_us"].get<double>(),
                             100 * point["left_out_error"].get<double>());
  }
  return out + "\nleft out: by constants fitted to the other points; only that column validates\n";
}

}  // namespace aoizora::network
