#include "aoizora/enumerate/candidate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace aoizora::enumerate {

namespace {

/// The rule axis that says how the sequence of an attention is split, in MaxDiffusion's names.
constexpr const char* kSequenceAxis = "activation_length";

}  // namespace

std::int64_t Candidate::axis_size(const std::string& mesh_axis) const {
  const auto found = std::find(mesh.axes.begin(), mesh.axes.end(), mesh_axis);
  if (found == mesh.axes.end()) return 1;
  return mesh.shape[static_cast<std::size_t>(found - mesh.axes.begin())];
}

std::int64_t Candidate::ways(const std::string& logical_axis) const {
  for (const auto& [logical, mesh_axes] : axis_rules) {
    if (logical != logical_axis) continue;
    std::int64_t product = 1;
    for (const auto& axis : mesh_axes) product *= axis_size(axis);
    return product;
  }
  return 1;
}

std::string Candidate::id() const {
  std::string text;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", mesh.axes[i], mesh.shape[i]);
  }
  text += "/" + attention;
  if (!variant.empty()) text += "/" + variant;
  return text;
}

std::string Candidate::canonical_key() const {
  // Axis names carry no meaning: an axis is named by its place among the axes that split anything.
  std::vector<std::string> names;
  std::string key = "mesh";
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.shape[i] == 1) continue;
    names.push_back(mesh.axes[i]);
    key += fmt::format(" {}", mesh.shape[i]);
  }
  std::vector<std::string> rules;
  for (std::size_t r = 0; r < axis_rules.size(); ++r) {
    const auto& [logical, mesh_axes] = axis_rules[r];
    const bool first = std::none_of(axis_rules.begin(), axis_rules.begin() + static_cast<std::ptrdiff_t>(r),
                                    [&](const auto& rule) { return rule.first == logical; });
    if (!first) continue;
    std::string axes;
    for (const auto& axis : mesh_axes) {
      const auto found = std::find(names.begin(), names.end(), axis);
      if (found != names.end()) axes += fmt::format(" {}", found - names.begin());
    }
    if (!axes.empty()) rules.push_back(logical + axes);
  }
  std::sort(rules.begin(), rules.end());
  const std::string how = ways(kSequenceAxis) == 1 ? "local" : attention;
  return fmt::format("{}; {}; {}", key, fmt::join(rules, ", "), how);
}

Json to_json(const Candidate& candidate) {
  Json rules = Json::array();
  for (const auto& [logical, mesh_axes] : candidate.axis_rules) rules.push_back({logical, mesh_axes});
  Json json;
  json["mesh"] = {{"axes", candidate.mesh.axes}, {"shape", candidate.mesh.shape}};
  json["axis_rules"] = std::move(rules);
  json["attention"] = candidate.attention;
  if (!candidate.variant.empty()) json["variant"] = candidate.variant;
  return json;
}

namespace {

AxisRules rules_from_json(const JsonView& json) {
  AxisRules rules;
  for (const JsonView& rule : json.items()) {
    const auto pair = rule.items();
    if (pair.size() != 2) rule.fail("[logical axis, [mesh axes]]");
    std::vector<std::string> axes;
    for (const JsonView& axis : pair[1].items()) axes.push_back(axis.string());
    rules.emplace_back(pair[0].string(), std::move(axes));
  }
  return rules;
}

}  // namespace

Candidate candidate_from_json(const JsonView& json) {
  Candidate candidate;
  const JsonView mesh = json.at("mesh");
  for (const JsonView& axis : mesh.at("axes").items()) candidate.mesh.axes.push_back(axis.string());
  for (const JsonView& size : mesh.at("shape").items()) {
    const std::int64_t value = size.integer();
    if (value < 1 || value > std::numeric_limits<std::int32_t>::max()) size.fail("a size of at least 1");
    candidate.mesh.shape.push_back(static_cast<std::int32_t>(value));
  }
  if (candidate.mesh.axes.size() != candidate.mesh.shape.size()) mesh.fail("as many sizes as axes");
  candidate.axis_rules = rules_from_json(json.at("axis_rules"));
  for (const auto& [logical, axes] : candidate.axis_rules) {
    for (const auto& axis : axes) {
      if (std::find(candidate.mesh.axes.begin(), candidate.mesh.axes.end(), axis) ==
          candidate.mesh.axes.end()) {
        user_error("{}: the rule of `{}` names `{}`, which is no axis of the mesh", json.path(), logical,
                   axis);
      }
    }
  }
  candidate.attention = json.at("attention").string();
  if (const auto variant = json.find("variant")) candidate.variant = variant->string();
  return candidate;
}

}  // namespace aoizora::enumerate
