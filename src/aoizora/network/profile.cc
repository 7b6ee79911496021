#include "aoizora/network/profile.h"

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "aoizora/base/error.h"
#include "aoizora/network/builtin_profiles.h"
#include "aoizora/topology/kinds.h"

namespace aoizora::network {
namespace {

using Json = nlohmann::ordered_json;

/// One constant: how the file names it, its unit there, and where it goes. One table for reading and writing.
struct Constant {
  const char* name;
  const char* unit;
  double scale;    // from the file's unit to ours
  bool zero;       // zero is allowed
  double largest;  // in the file's unit
  double (*get)(const Profile&);
  void (*set)(Profile&, double);
};

constexpr double kAny = 1e30;

#define AOIZORA_CONSTANT(name, unit, scale, zero, largest, field)                        \
  Constant {                                                                             \
    #name, unit, scale, zero, largest, [](const Profile& p) { return double(p.field); }, \
        [](Profile& p, double v) { p.field = static_cast<decltype(p.field)>(v); }        \
  }

const Constant kConstants[] = {
    AOIZORA_CONSTANT(link_bandwidth, "GB/s, one way, one link", 1e3, false, kAny, link_bandwidth.value),
    AOIZORA_CONSTANT(hop_latency, "us per link", 1, true, kAny, hop_latency.value),
    AOIZORA_CONSTANT(launch, "us per step of a collective", 1, true, kAny, launch.value),
    AOIZORA_CONSTANT(clock, "GHz", 1e3, false, kAny, clock_per_micro),
    AOIZORA_CONSTANT(peak_flops, "TFLOP/s, bf16, per device", 1e6, false, kAny, peak_flops_per_micro),
    AOIZORA_CONSTANT(hbm_bandwidth, "GB/s per device", 1e3, false, kAny, hbm_bandwidth.value),
    AOIZORA_CONSTANT(hbm_capacity, "bytes per device", 1, false, 1e18, hbm_capacity.value),
    AOIZORA_CONSTANT(matmul_efficiency, "of peak", 1, false, 1, matmul_efficiency),
    AOIZORA_CONSTANT(flash_efficiency, "of peak", 1, false, 1, flash_efficiency),
    AOIZORA_CONSTANT(hbm_efficiency, "of peak", 1, false, 1, hbm_efficiency),
    AOIZORA_CONSTANT(core_link_scale, "times an ICI link", 1, false, kAny, core_link_scale),
    AOIZORA_CONSTANT(dcn_bandwidth, "GB/s per host, one way", 1e3, false, kAny, dcn_bandwidth.value),
    AOIZORA_CONSTANT(dcn_latency, "us per traversal of an up- or downlink", 1, true, kAny, dcn_latency.value),
    AOIZORA_CONSTANT(stated_error, "of the time of a collective", 1, true, 1, stated_error),
};
#undef AOIZORA_CONSTANT

[[noreturn]] void wrong(const std::string& file, const std::string& message) {
  throw UserError(fmt::format("{}: {}", file, message));
}

std::string text_of(const Json& json, const char* key, const std::string& file) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string() || found->get<std::string>().empty()) {
    wrong(file, fmt::format("a profile needs a text `{}`", key));
  }
  return found->get<std::string>();
}

double checked_value(const Json& entry, const Constant& constant, const std::string& file) {
  const auto value = entry.find("value");
  if (value == entry.end() || !value->is_number()) {
    wrong(file, fmt::format("constant `{}` needs a number `value` ({})", constant.name, constant.unit));
  }
  const double number = value->get<double>();
  if (!std::isfinite(number) || number < 0 || (number == 0 && !constant.zero)) {
    wrong(file, fmt::format("constant `{}` is {}; it must be {} ({})", constant.name, number,
                            constant.zero ? "zero or more" : "above zero", constant.unit));
  }
  if (number > constant.largest) {
    wrong(file, fmt::format("constant `{}` is {}, above {} ({})", constant.name, number, constant.largest,
                            constant.unit));
  }
  return number;
}

Position position_of(std::string_view text, std::size_t byte) {
  Position at{1, 1};
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    at.column = text[i] == '\n' ? 1 : at.column + 1;
    at.line += text[i] == '\n' ? 1U : 0U;
  }
  return at;
}

}  // namespace

Profile Profile::parse(std::string_view json_text, const std::string& file) {
  Json json;
  try {
    json = Json::parse(json_text);
  } catch (const Json::parse_error& error) {
    throw UserError(file, position_of(json_text, error.byte), "a profile is a JSON object; this is not JSON");
  }
  if (!json.is_object()) {
    wrong(file, "a profile is a JSON object with `kind`, `name` and `constants`");
  }
  Profile profile;
  profile.kind = text_of(json, "kind", file);
  profile.name = text_of(json, "name", file);
  const auto constants = json.find("constants");
  if (constants == json.end() || !constants->is_object()) {
    wrong(file, "a profile needs an object `constants`");
  }
  std::size_t known = 0;
  for (const Constant& constant : kConstants) {
    const auto entry = constants->find(constant.name);
    if (entry == constants->end() || !entry->is_object()) {
      wrong(file, fmt::format("constant `{}` is missing: {{\"value\": NUMBER, \"source\": TEXT}}, in {}",
                              constant.name, constant.unit));
    }
    constant.set(profile, checked_value(*entry, constant, file) * constant.scale);
    profile.sources[constant.name] = text_of(*entry, "source", fmt::format("{}: {}", file, constant.name));
    ++known;
  }
  if (constants->size() != known) {
    for (const auto& item : constants->items()) {
      if (!profile.sources.contains(item.key())) {
        wrong(file, fmt::format("there is no constant `{}`", item.key()));
      }
    }
  }
  return profile;
}

std::string Profile::to_json() const {
  Json json;
  json["kind"] = kind;
  json["name"] = name;
  for (const Constant& constant : kConstants) {
    const auto source = sources.find(constant.name);
    json["constants"][constant.name] = {{"value", constant.get(*this) / constant.scale},
                                        {"unit", constant.unit},
                                        {"source", source == sources.end() ? "" : source->second}};
  }
  return json.dump(2) + "\n";
}

std::string builtin_profile_names() {
  std::string names;
  for (const BuiltinProfile& profile : builtin_profiles()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", profile.kind);
  }
  return names;
}

Profile Profile::builtin(std::string_view kind) {
  const topology::ChipKind* known = topology::find_chip_kind(kind);
  for (const BuiltinProfile& profile : builtin_profiles()) {
    if (profile.kind == (known != nullptr ? known->name : kind)) {
      return parse(profile.json, fmt::format("built-in profile {}", profile.kind));
    }
  }
  user_error("no built-in profile for `{}`; there are {}", kind, builtin_profile_names());
}

}  // namespace aoizora::network
