#pragma once

#include <string>
#include <utility>
#include <vector>

#include "aoizora/base/json.h"
#include "aoizora/topology/mesh.h"

namespace aoizora::enumerate {

/// Logical tensor axis -> mesh axes that split it, in Flax's `logical_axis_rules` form: the first rule of a
/// name counts, an axis that is not named is not split.
using AxisRules = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// A sharding before compilation: mesh, axis rules, attention strategy. The devices are not part of it.
struct Candidate {
  topology::LogicalMesh mesh;
  AxisRules axis_rules;
  std::string attention;
  /// Which variant of the space's rules this is (`sharded-weights`); empty when the space has one.
  std::string variant;

  /// Short and unique within one enumeration: `data=2,context=4,tensor=2/ulysses/sharded-weights`.
  std::string id() const;
  /// Equal for candidates that are the same program: axes of size 1 and rules that split nothing are left
  /// out, and the attention strategy where nothing splits the sequence.
  std::string canonical_key() const;
  /// How many ways the rules split a logical axis (1 when no rule names it).
  std::int64_t ways(const std::string& logical_axis) const;
  std::int64_t axis_size(const std::string& mesh_axis) const;
};

/// `{"mesh": {"axes": [...], "shape": [...]}, "axis_rules": [[logical, [mesh axes]]...], "attention":
/// "..."}`.
Json to_json(const Candidate& candidate);
/// UserError names the member that is wrong.
Candidate candidate_from_json(const JsonView& json);

}  // namespace aoizora::enumerate
