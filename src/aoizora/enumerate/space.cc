#include "aoizora/enumerate/space.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

namespace aoizora::enumerate {
namespace {

// Axis names and defaults follow MaxDiffusion's Wan configuration (`logical_axis_rules` in its YAML files):
// batch over data, sequence over context, heads and MLP over tensor.
constexpr std::string_view kBuiltin = R"({
  "mesh_axes": ["data", "context", "tensor"],
  "attention": ["head_parallel", "all_gather_kv", "ulysses", "ring"],
  "rules": [
    ["activation_batch", ["data"]],
    ["activation_length", ["context"]],
    ["activation_heads", ["tensor"]],
    ["heads", ["tensor"]],
    ["mlp", ["tensor"]],
    ["norm", ["tensor"]]
  ],
  "variants": [
    {"name": "whole-weights", "rules": []},
    {"name": "sharded-weights", "rules": [["embed", ["context"]]]}
  ]
})";

AxisRules parse_rules(const JsonView& json, const std::vector<std::string>& mesh_axes) {
  AxisRules rules;
  for (const JsonView& rule : json.items()) {
    const auto pair = rule.items();
    if (pair.size() != 2) rule.fail("[logical axis, [mesh axes]]");
    std::vector<std::string> axes;
    for (const JsonView& axis : pair[1].items()) {
      axes.push_back(axis.string());
      if (std::find(mesh_axes.begin(), mesh_axes.end(), axes.back()) == mesh_axes.end()) {
        axis.fail(fmt::format("one of the mesh axes {}", fmt::join(mesh_axes, ", ")));
      }
    }
    rules.emplace_back(pair[0].string(), std::move(axes));
  }
  return rules;
}

/// Rules whose logical axis the model does not have say nothing about it and are left out.
AxisRules rules_for(const ModelDescription& model, const Space::Variant& variant, const AxisRules& common) {
  AxisRules rules;
  for (const AxisRules* list : {&variant.rules, &common}) {
    for (const auto& rule : *list) {
      const bool known = model.axes.contains(rule.first);
      const bool taken = std::any_of(rules.begin(), rules.end(),
                                     [&](const auto& earlier) { return earlier.first == rule.first; });
      if (known && !taken) rules.push_back(rule);
    }
  }
  return rules;
}

std::optional<std::string> not_divisible(const Candidate& candidate, const ModelDescription& model) {
  for (const auto& [axis, sizes] : model.axes) {
    const std::int64_t ways = candidate.ways(axis);
    if (ways == 1 ||
        std::find(model.padded_axes.begin(), model.padded_axes.end(), axis) != model.padded_axes.end()) {
      continue;
    }
    for (const std::int64_t size : sizes) {
      if (size % ways != 0) return fmt::format("{} of size {} does not divide by {}", axis, size, ways);
    }
  }
  return std::nullopt;
}

/// Ulysses trades a split of the sequence for a split of the heads, so each chip's heads must divide again
/// (DeepSpeed-Ulysses, Jacobs et al. 2023).
std::optional<std::string> heads_too_few(const Candidate& candidate, const ModelDescription& model) {
  if (candidate.attention != "ulysses") return std::nullopt;
  const std::int64_t ways = std::max(candidate.ways("activation_heads"), candidate.ways("heads")) *
                            candidate.ways("activation_length");
  for (const std::int64_t heads : {model.heads, model.kv_heads}) {
    if (heads % ways != 0) {
      return fmt::format("{} heads do not divide by {} (tensor x context, as Ulysses needs)", heads, ways);
    }
  }
  return std::nullopt;
}

std::optional<std::string> sequence_is_split(const Candidate& candidate) {
  const std::int64_t ways = candidate.ways("activation_length");
  if (candidate.attention != "head_parallel" || ways == 1) return std::nullopt;
  return fmt::format(
      "head_parallel attention needs the whole sequence on each chip, context splits it {} ways", ways);
}

bool size_allowed(const Space& space, const Candidate& candidate) {
  for (std::size_t i = 0; i < candidate.mesh.axes.size(); ++i) {
    const auto found = space.sizes.find(candidate.mesh.axes[i]);
    if (found == space.sizes.end()) continue;
    if (std::find(found->second.begin(), found->second.end(), candidate.mesh.shape[i]) ==
        found->second.end()) {
      return false;
    }
  }
  return true;
}

std::vector<std::string> strategies_of(const ModelDescription& model, const Space& space) {
  std::vector<std::string> strategies;
  for (const auto& strategy : space.attention) {
    const auto& known = model.attention_strategies;
    if (std::find(known.begin(), known.end(), strategy) != known.end()) strategies.push_back(strategy);
  }
  if (strategies.empty()) {
    user_error("the model {} has none of the attention strategies {}; it has: {}", model.name,
               fmt::join(space.attention, ", "), fmt::join(model.attention_strategies, ", "));
  }
  return strategies;
}

}  // namespace

std::vector<std::vector<std::int64_t>> ordered_factorisations(std::int64_t n, std::size_t parts) {
  AOIZORA_CHECK(n >= 1 && parts >= 1, "n {} parts {}", n, parts);
  if (parts == 1) return {{n}};
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t first = 1; first <= n; ++first) {
    if (n % first != 0) continue;
    for (auto rest : ordered_factorisations(n / first, parts - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

Space Space::parse(std::string_view json_text, const std::string& file) {
  const Json document = parse_json(json_text, file);
  const JsonView json(document, file);
  Space space;
  for (const JsonView& axis : json.at("mesh_axes").items()) space.mesh_axes.push_back(axis.string());
  if (space.mesh_axes.empty() || space.mesh_axes.size() > 8) json.at("mesh_axes").fail("one to eight axes");
  for (const JsonView& strategy : json.at("attention").items()) space.attention.push_back(strategy.string());
  space.rules = parse_rules(json.at("rules"), space.mesh_axes);
  if (const auto variants = json.find("variants")) {
    for (const JsonView& variant : variants->items()) {
      space.variants.push_back(
          {variant.at("name").string(), parse_rules(variant.at("rules"), space.mesh_axes)});
    }
  }
  if (space.variants.empty()) space.variants.push_back({});
  if (const auto sizes = json.find("sizes")) {
    for (const auto& [axis, list] : sizes->members()) {
      for (const JsonView& size : list.items()) space.sizes[axis].push_back(size.integer());
    }
  }
  return space;
}

Space Space::builtin() { return parse(kBuiltin, "builtin space"); }

Enumeration enumerate(const ModelDescription& model, std::int64_t chips, const Space& space) {
  Enumeration result;
  std::set<std::string> seen;
  const auto strategies = strategies_of(model, space);
  for (const auto& factors : ordered_factorisations(chips, space.mesh_axes.size())) {
    for (const auto& variant : space.variants) {
      for (const auto& strategy : strategies) {
        Candidate candidate;
        candidate.mesh.axes = space.mesh_axes;
        candidate.mesh.shape.assign(factors.begin(), factors.end());
        candidate.axis_rules = rules_for(model, variant, space.rules);
        candidate.attention = strategy;
        candidate.variant = variant.name;
        if (!size_allowed(space, candidate)) continue;
        if (!seen.insert(candidate.canonical_key()).second) {
          ++result.duplicates;
        } else if (auto reason = not_divisible(candidate, model)) {
          result.illegal.push_back({std::move(candidate), std::move(*reason)});
        } else if (auto split = sequence_is_split(candidate)) {
          result.illegal.push_back({std::move(candidate), std::move(*split)});
        } else if (auto few = heads_too_few(candidate, model)) {
          result.illegal.push_back({std::move(candidate), std::move(*few)});
        } else {
          result.legal.push_back(std::move(candidate));
        }
      }
    }
  }
  return result;
}

}  // namespace aoizora::enumerate
