#include "aoizora/network/cost_service.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "aoizora/base/error.h"
#include "aoizora/network/in_flight.h"
#include "aoizora/topology/graph_file.h"

namespace aoizora::network {
namespace {

using Json = nlohmann::ordered_json;

Kind kind_of(const std::string& name) {
  for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce, Kind::kAllToAll,
                          Kind::kPermute, Kind::kBroadcast}) {
    if (name == kind_name(kind) || fmt::format("collective-{}", name) == kind_name(kind)) {
      return kind;
    }
  }
  user_error(
      "no collective `{}`; there are all-gather, reduce-scatter, all-reduce, all-to-all, permute, broadcast",
      name);
}

Model model_of(const Json& request, const topology::Slice& slice) {
  Assumptions assumptions;
  for (const Json& pair : request.value("assume", Json::array())) {
    set_assumption(assumptions, pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  }
  if (request.contains("profile") && request["profile"].is_object()) {
    const Json& file = request["profile"];
    return {slice, Profile::parse(file.at("text").get<std::string>(), file.at("file").get<std::string>()),
            assumptions};
  }
  // A custom graph brings its own bandwidths; what it leaves out is taken from v5e.
  return {slice, Profile::builtin(slice.is_graph() ? "v5e" : slice.kind()), assumptions};
}

std::string chip_text(const topology::Slice& slice, Chip chip) {
  return chip.valid() ? fmt::format("({})", fmt::join(slice.coordinates(chip), ",")) : "network";
}

Json link_json(const topology::Slice& slice, Link link) {
  if (!link.valid()) {
    return nullptr;
  }
  const auto end = [&](Chip chip) { return chip.valid() ? Json(slice.coordinates(chip)) : Json(nullptr); };
  const topology::DirectedLink& along = slice.links()[link.at()];
  return {{"from", end(along.from)}, {"to", end(along.to)}};
}

Json answer_json(const Model& model, const Collective& collective, const topology::Placement& placement,
                 std::int32_t concurrent) {
  const Cost cost = concurrent_cost(model, collective, placement, concurrent);
  const Schedule schedule = model.schedule(collective, placement);
  Micros latency;
  std::size_t flows = 0;
  for (const Phase& phase : schedule.phases) {
    latency += phase.latency;
    flows += phase.flows.size();
  }
  Json json;
  json["kind"] = kind_name(collective.kind);
  json["slice"] = model.slice().name();
  json["bytes"] = collective.bytes.value;
  json["groups"] = collective.groups.empty() ? collective.pairs.size() : collective.groups.size();
  json["concurrent"] = concurrent;
  json["time_us"] = cost.time.value;
  json["bound_us"] = cost.bound.value;
  json["latency_us"] = latency.value;
  json["busiest_link"] = link_json(model.slice(), cost.busiest);
  json["busiest_bytes"] = cost.busiest_bytes.value;
  json["algorithm"] = schedule.algorithm;
  json["phases"] = schedule.phases.size();
  json["flows"] = flows;
  json["profile"] = model.profile().name;
  json["stated_error"] = model.profile().stated_error;
  return json;
}

std::string answer_text(const Json& json, const topology::Slice& slice, Link busiest) {
  std::string text = fmt::format("{} of {} bytes on {}: {:.2f} us (bound {:.2f}, of it latency {:.2f})\n",
                                 json["kind"].get<std::string>(), json["bytes"].get<std::int64_t>(),
                                 slice.name(), json["time_us"].get<double>(), json["bound_us"].get<double>(),
                                 json["latency_us"].get<double>());
  text +=
      fmt::format("{}, {} groups, {} at once, {} flows in {} phases\n", json["algorithm"].get<std::string>(),
                  json["groups"].get<std::size_t>(), json["concurrent"].get<int>(),
                  json["flows"].get<std::size_t>(), json["phases"].get<std::size_t>());
  if (busiest.valid()) {
    const topology::DirectedLink& link = slice.links()[busiest.at()];
    text += fmt::format("busiest link {} > {}: {} bytes\n", chip_text(slice, link.from),
                        chip_text(slice, link.to), json["busiest_bytes"].get<std::int64_t>());
  }
  return text;
}

}  // namespace

void set_assumption(Assumptions& assumptions, const std::string& name, const std::string& value) {
  using Ring = Assumptions::Ring;
  using Routing = Assumptions::Routing;
  if (name == "ring" && value == "given") {
    assumptions.ring = Ring::kGiven;
  } else if (name == "ring" && value == "reordered") {
    assumptions.ring = Ring::kReordered;
  } else if (name == "ring" && value == "compiled") {
    assumptions.ring = Ring::kAsCompiled;
  } else if (name == "routing" && value == "xy") {
    assumptions.routing = Routing::kDimensionOrderXY;
  } else if (name == "routing" && value == "yx") {
    assumptions.routing = Routing::kDimensionOrderYX;
  } else if (name == "routing" && value == "split") {
    assumptions.routing = Routing::kSplitTies;
  } else {
    user_error("no assumption `{}={}`; there are ring=given|reordered|compiled and routing=xy|yx|split", name,
               value);
  }
}

Collective collective_over(const std::string& kind, const std::vector<MeshAxis>& mesh,
                           const std::vector<std::string>& axes, Bytes bytes, std::size_t chips) {
  std::size_t positions = 1;
  std::string names;
  for (const MeshAxis& axis : mesh) {
    positions *= static_cast<std::size_t>(axis.size);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", axis.name);
  }
  if (positions != chips) {
    user_error("the mesh has {} positions, the slice {} devices", positions, chips);
  }
  for (const std::string& wanted : axes) {
    if (std::none_of(mesh.begin(), mesh.end(), [&](const MeshAxis& axis) { return axis.name == wanted; })) {
      user_error("the mesh has no axis `{}`; it has {}", wanted, names);
    }
  }
  Collective made;
  made.kind = kind_of(kind);
  made.bytes = bytes;
  // A position's group: its coordinates with those along `axes` left out.
  std::vector<std::vector<Partition>> groups(positions);
  for (std::size_t p = 0; p < positions; ++p) {
    std::size_t rest = p;
    std::size_t stride = 1;
    std::size_t group = p;
    for (std::size_t i = mesh.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(mesh[i].size);
      if (std::find(axes.begin(), axes.end(), mesh[i].name) != axes.end()) {
        group -= rest % size * stride;
      }
      rest /= size;
      stride *= size;
    }
    groups[group].push_back(Partition(static_cast<std::int32_t>(p)));
  }
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  if (made.kind != Kind::kPermute) {
    made.groups = std::move(groups);
    return made;
  }
  for (const std::vector<Partition>& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      made.pairs.emplace_back(group[i], group[(i + 1) % group.size()]);
    }
  }
  return made;
}

Cost concurrent_cost(const Model& model, const Collective& collective, const topology::Placement& placement,
                     std::int32_t concurrent) {
  Cost cost = model.cost(collective, placement);
  if (concurrent == 1) {
    return cost;
  }
  const Schedule schedule = model.schedule(collective, placement);
  Micros latency;
  for (const Phase& phase : schedule.phases) {
    latency += phase.latency;
  }
  cost.bound = latency + (cost.bound - latency) * concurrent;
  cost.busiest_bytes = Bytes(cost.busiest_bytes.value * concurrent);
  InFlight flight(model.capacities());
  std::vector<InFlight::Finished> finished;
  for (std::int32_t i = 0; i < concurrent; ++i) {
    flight.start(schedule, Micros(0));
  }
  flight.advance(Micros(std::numeric_limits<double>::max()), finished);
  cost.time = std::max(cost.bound, finished.back().at);
  return cost;
}

std::string cost_service(const std::string& request_text, bool as_json) {
  const Json request = Json::parse(request_text);
  const topology::Slice slice = topology::load_slice(request.at("slice").get<std::string>());
  const Model model = model_of(request, slice);
  std::vector<MeshAxis> mesh;
  for (const Json& axis : request.at("mesh")) {
    mesh.push_back({axis.at(0).get<std::string>(), axis.at(1).get<std::int32_t>()});
  }
  Collective collective = collective_over(request.at("kind").get<std::string>(), mesh,
                                          request.at("axes").get<std::vector<std::string>>(),
                                          Bytes(request.at("bytes").get<std::int64_t>()), slice.chips());
  collective.hint.strategy = request.value("strategy", "");
  const Json order = request.value("order", Json());
  const topology::Placement placement =
      order.is_object() ? topology::parse_order(slice, order.at("text").get<std::string>(),
                                                order.at("file").get<std::string>())
                        : topology::row_major(slice);
  const std::int32_t concurrent = request.value("concurrent", 1);
  const Json answer = answer_json(model, collective, placement, concurrent);
  return as_json ? answer.dump(2) + "\n"
                 : answer_text(answer, slice, model.cost(collective, placement).busiest);
}

}  // namespace aoizora::network
