#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/json.h"
#include "aoizora/base/units.h"
#include "aoizora/compile/compiler.h"
#include "aoizora/enumerate/candidate.h"
#include "aoizora/topology/slice.h"

/// The plan file: `format: "aoizora.plan"`, documented in docs/plan-format.md and docs/plan.schema.json.
namespace aoizora::plan {

constexpr std::int64_t kVersion = 1;

/// Times of one step as the replay predicts them.
struct Predicted {
  Micros step;
  Micros compute;
  Micros exposed_comm;
  Micros exposed_copies;  // waiting for copies that run beside compute
};

struct Baseline {
  std::string name;  // create_device_mesh | row_major | worst | ...
  std::optional<Micros> step;
  std::string note;  // why there is no time, or what it stands for
  /// The candidate of a sharding chosen by habit; empty for the winner's program on another device order.
  std::string candidate = {};
};

enum class Status : std::uint8_t { kIllegal, kPruned, kCompiled, kFailed, kWinner };
std::string_view status_name(Status status);

/// What became of one candidate.
struct CandidateRecord {
  enumerate::Candidate candidate;
  Status status{};
  std::string reason;
  std::optional<Micros> precompile;          // the estimate before compiling
  std::optional<Micros> predicted;           // best placement, from its compiled program
  std::optional<std::int64_t> memory_bytes;  // per chip
};

/// The winner under one assumption of N9.
struct AssumptionRecord {
  std::string name;
  std::string winner;  // candidate id
  Micros best;         // the best placement under the assumption
  Micros chosen;       // the plan's placement under it
  /// The winner's program on JAX's create_device_mesh order under it.
  std::optional<Micros> usual;
};

struct Refusal {
  std::string candidate;
  std::vector<topology::Coordinates> device_coords;
  std::string reason;
};

struct RunnerUp {
  std::string candidate;
  std::string placement;
  Micros step;
};

struct Plan {
  std::string slice;
  std::string model;
  Json model_options = Json::object();
  std::string fingerprint;
  std::string key;
  enumerate::Candidate winner;
  std::vector<topology::Coordinates> device_coords;  // chip of each logical position, row-major mesh order
  std::string placement;                             // name of the placement, for people
  Predicted predicted;
  std::optional<RunnerUp> runner_up;
  double margin = 0;  // runner_up.step / step - 1
  /// Placements and candidates whose time the model can't tell from the winner's.
  std::vector<std::string> ties;
  std::vector<AssumptionRecord> by_assumption;
  Micros lower_bound;
  double gap = 0;
  compile::Memory memory;
  std::vector<Refusal> refusals;
  std::vector<Baseline> baselines;
  std::vector<CandidateRecord> candidates;
  std::vector<std::string> notes;
  /// Versions and options that the plan rests on: part of what is bit-identical for the same input.
  Json evidence = Json::object();
  /// Wall times and memory of this run: not part of it.
  Json run = Json::object();
};

/// Members in the documented order. Everything but `run` is the same for the same input.
Json to_json(const Plan& plan);
/// Checks format, version, types, ranges and that device_coords fits the mesh and the slice.
/// UserError names the member; a newer version says so.
Plan from_json(const JsonView& json);
Plan read(const std::string& path);

/// SHA-256 over what a plan depends on.
std::string plan_key(const Json& inputs);

}  // namespace aoizora::plan
