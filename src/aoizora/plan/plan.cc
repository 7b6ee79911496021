#include "aoizora/plan/plan.h"

#include <array>
#include <cmath>
#include <utility>

#include "aoizora/base/file.h"

namespace aoizora::plan {
namespace {

constexpr std::array<std::pair<Status, std::string_view>, 5> kStatusNames{{{Status::kIllegal, "illegal"},
                                                                           {Status::kPruned, "pruned"},
                                                                           {Status::kCompiled, "compiled"},
                                                                           {Status::kFailed, "failed"},
                                                                           {Status::kWinner, "winner"}}};

/// A nanosecond is far below anything the model can tell, and short numbers read better.
double rounded(Micros time) { return std::round(time.value * 1e3) / 1e3; }

Json optional_time(const std::optional<Micros>& time) { return time ? Json(rounded(*time)) : Json(nullptr); }

Micros time_from(const JsonView& json) {
  const double value = json.number();
  if (!std::isfinite(value) || value < 0) json.fail("a time in microseconds, not negative");
  return Micros(value);
}

std::optional<Micros> optional_time_from(const JsonView& json, std::string_view key) {
  const auto found = json.find(key);
  if (!found || found->is_null()) return std::nullopt;
  return time_from(*found);
}

Json to_json(const CandidateRecord& record) {
  Json json;
  json["id"] = record.candidate.id();
  json.update(enumerate::to_json(record.candidate));
  json["status"] = status_name(record.status);
  json["reason"] = record.reason;
  json["precompile_us"] = optional_time(record.precompile);
  json["predicted_us"] = optional_time(record.predicted);
  json["memory_bytes"] = record.memory_bytes ? Json(*record.memory_bytes) : Json(nullptr);
  return json;
}

CandidateRecord record_from(const JsonView& json) {
  CandidateRecord record;
  record.candidate = enumerate::candidate_from_json(json);
  const std::string status = json.at("status").string();
  bool known = false;
  for (const auto& [value, name] : kStatusNames) {
    if (name == status) {
      record.status = value;
      known = true;
    }
  }
  if (!known) json.at("status").fail("illegal, pruned, compiled, failed or winner");
  record.reason = json.at("reason").string();
  record.precompile = optional_time_from(json, "precompile_us");
  record.predicted = optional_time_from(json, "predicted_us");
  if (const auto memory = json.find("memory_bytes"); memory && !memory->is_null()) {
    record.memory_bytes = memory->integer();
  }
  return record;
}

std::vector<topology::Coordinates> coordinates_from(const JsonView& json) {
  std::vector<topology::Coordinates> all;
  for (const JsonView& chip : json.items()) {
    topology::Coordinates coordinates;
    for (const JsonView& component : chip.items()) {
      const std::int64_t value = component.integer();
      if (value < 0 || value > 1 << 20) component.fail("a coordinate");
      coordinates.push_back(static_cast<std::int32_t>(value));
    }
    all.push_back(std::move(coordinates));
  }
  return all;
}

Json memory_json(const compile::Memory& memory) {
  return {{"argument_bytes", memory.argument}, {"output_bytes", memory.output},
          {"temp_bytes", memory.temporary},    {"alias_bytes", memory.alias},
          {"code_bytes", memory.code},         {"total_bytes", memory.total()}};
}

compile::Memory memory_from(const JsonView& json) {
  return {json.at("argument_bytes").integer(), json.at("output_bytes").integer(),
          json.at("temp_bytes").integer(), json.at("alias_bytes").integer(), json.at("code_bytes").integer()};
}

/// The coordinates are a bijection onto the slice, in the mesh's order.
void check_devices(const Plan& plan, const JsonView& json) {
  const auto slice = topology::Slice::parse(plan.slice);
  std::int64_t positions = 1;
  for (const auto size : plan.winner.mesh.shape) positions *= size;
  if (positions != static_cast<std::int64_t>(plan.device_coords.size())) {
    user_error("{}.device_coords: the mesh has {} positions, the list {}", json.path(), positions,
               plan.device_coords.size());
  }
  topology::placement_from_coordinates(slice, plan.device_coords);
}

void read_evidence(const JsonView& json, Plan& plan) {
  for (const JsonView& baseline : json.at("baselines").items()) {
    plan.baselines.push_back({baseline.at("name").string(), optional_time_from(baseline, "step_us"),
                              baseline.at("note").string(), ""});
    if (const auto candidate = baseline.find("candidate"))
      plan.baselines.back().candidate = candidate->string();
  }
  for (const JsonView& record : json.at("candidates").items()) plan.candidates.push_back(record_from(record));
  for (const JsonView& tie : json.at("ties").items()) plan.ties.push_back(tie.string());
  for (const JsonView& item : json.at("by_assumption").items()) {
    plan.by_assumption.push_back({item.at("name").string(), item.at("winner").string(),
                                  time_from(item.at("best_us")), time_from(item.at("chosen_us")),
                                  optional_time_from(item, "create_device_mesh_us")});
  }
  for (const JsonView& item : json.at("refusals").items()) {
    plan.refusals.push_back({item.at("candidate").string(), coordinates_from(item.at("device_coords")),
                             item.at("reason").string()});
  }
  for (const JsonView& note : json.at("notes").items()) plan.notes.push_back(note.string());
  plan.evidence = json.at("evidence").raw();
  if (const auto run = json.find("run")) plan.run = run->raw();
}

}  // namespace

std::string_view status_name(Status status) {
  for (const auto& [value, name] : kStatusNames) {
    if (value == status) return name;
  }
  return "unknown";
}

Json to_json(const Plan& plan) {
  Json json;
  json["format"] = "aoizora.plan";
  json["version"] = kVersion;
  json["slice"] = plan.slice;
  json["model"] = {{"name", plan.model}, {"options", plan.model_options}, {"fingerprint", plan.fingerprint}};
  json["key"] = plan.key;
  json["id"] = plan.winner.id();
  json.update(enumerate::to_json(plan.winner));
  json["device_coords"] = plan.device_coords;
  json["placement"] = plan.placement;
  json["predicted"] = {{"step_us", rounded(plan.predicted.step)},
                       {"compute_us", rounded(plan.predicted.compute)},
                       {"exposed_comm_us", rounded(plan.predicted.exposed_comm)},
                       {"exposed_copies_us", rounded(plan.predicted.exposed_copies)}};
  json["runner_up"] = plan.runner_up ? Json{{"candidate", plan.runner_up->candidate},
                                            {"placement", plan.runner_up->placement},
                                            {"step_us", rounded(plan.runner_up->step)}}
                                     : Json(nullptr);
  json["margin"] = plan.margin;
  json["ties"] = plan.ties;
  Json assumptions = Json::array();
  for (const auto& item : plan.by_assumption) {
    assumptions.push_back({{"name", item.name},
                           {"winner", item.winner},
                           {"best_us", rounded(item.best)},
                           {"chosen_us", rounded(item.chosen)},
                           {"create_device_mesh_us", optional_time(item.usual)}});
  }
  json["by_assumption"] = std::move(assumptions);
  json["lower_bound_us"] = rounded(plan.lower_bound);
  json["gap"] = plan.gap;
  json["memory_per_chip"] = memory_json(plan.memory);
  Json refusals = Json::array();
  for (const auto& item : plan.refusals) {
    refusals.push_back(
        {{"candidate", item.candidate}, {"device_coords", item.device_coords}, {"reason", item.reason}});
  }
  json["refusals"] = std::move(refusals);
  Json baselines = Json::array();
  for (const auto& item : plan.baselines) {
    baselines.push_back({{"name", item.name}, {"step_us", optional_time(item.step)}, {"note", item.note}});
    if (!item.candidate.empty()) baselines.back()["candidate"] = item.candidate;
  }
  json["baselines"] = std::move(baselines);
  Json candidates = Json::array();
  for (const auto& record : plan.candidates) candidates.push_back(to_json(record));
  json["candidates"] = std::move(candidates);
  json["notes"] = plan.notes;
  json["evidence"] = plan.evidence;
  json["run"] = plan.run;
  return json;
}

Plan from_json(const JsonView& json) {
  if (const auto format = json.find("format"); !format || format->string() != "aoizora.plan") {
    user_error("{}: not a plan (its `format` is not \"aoizora.plan\")", json.path());
  }
  const std::int64_t version = json.at("version").integer();
  if (version != kVersion) {
    user_error("{}: plan version {}, this AoiZora reads version {}; plan again{}", json.path(), version,
               kVersion, version > kVersion ? " or install a newer one" : "");
  }
  Plan plan;
  plan.slice = json.at("slice").string();
  const JsonView model = json.at("model");
  plan.model = model.at("name").string();
  plan.model_options = model.at("options").raw();
  plan.fingerprint = model.at("fingerprint").string();
  plan.key = json.at("key").string();
  plan.winner = enumerate::candidate_from_json(json);
  plan.device_coords = coordinates_from(json.at("device_coords"));
  plan.placement = json.at("placement").string();
  const JsonView predicted = json.at("predicted");
  plan.predicted = {time_from(predicted.at("step_us")), time_from(predicted.at("compute_us")),
                    time_from(predicted.at("exposed_comm_us")), time_from(predicted.at("exposed_copies_us"))};
  if (const JsonView other = json.at("runner_up"); !other.is_null()) {
    plan.runner_up = {other.at("candidate").string(), other.at("placement").string(),
                      time_from(other.at("step_us"))};
  }
  plan.margin = json.at("margin").number();
  plan.lower_bound = time_from(json.at("lower_bound_us"));
  plan.gap = json.at("gap").number();
  plan.memory = memory_from(json.at("memory_per_chip"));
  read_evidence(json, plan);
  check_devices(plan, json);
  return plan;
}

Plan read(const std::string& path) {
  constexpr std::size_t limit = std::size_t{256} << 20;
  const Json document = parse_json(read_text(path, limit), path);
  return from_json(JsonView(document, path));
}

std::string plan_key(const Json& inputs) { return sha256_hex(canonical_json(inputs)); }

}  // namespace aoizora::plan
