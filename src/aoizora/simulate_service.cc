#include "aoizora/simulate_service.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "aoizora/base/file.h"
#include "aoizora/base/json.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/search.h"
#include "aoizora/simulate/describe.h"
#include "aoizora/simulate/trace.h"

namespace aoizora {
namespace {

using network::Assumptions;
using topology::Placement;
using topology::Slice;

network::Profile profile_from(const JsonView& request, const Slice& slice) {
  const auto given = request.find("profile");
  if (!given || given->is_null()) return network::Profile::builtin(slice.kind());
  return network::Profile::parse(given->at("text").string(), given->at("file").string());
}

double flash_efficiency(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1) {
    user_error("--assume flash={}: a number above 0 and up to 1, the fraction of peak FLOP/s", text);
  }
  return value;
}

/// N9's choices by name; `flash` overrides the profile's efficiency of attention kernels.
Assumptions assume(const JsonView& request, network::Profile& profile) {
  Assumptions chosen;
  const auto given = request.find("assume");
  if (!given || given->is_null()) return chosen;
  for (const auto& [name, view] : given->members()) {
    const std::string value = view.string();
    if (name == "ring" && value == "as-compiled") {
      chosen.ring = Assumptions::Ring::kAsCompiled;
    } else if (name == "ring" && value == "given") {
      chosen.ring = Assumptions::Ring::kGiven;
    } else if (name == "ring" && value == "reordered") {
      chosen.ring = Assumptions::Ring::kReordered;
    } else if (name == "routing" && value == "xy") {
      chosen.routing = Assumptions::Routing::kDimensionOrderXY;
    } else if (name == "routing" && value == "yx") {
      chosen.routing = Assumptions::Routing::kDimensionOrderYX;
    } else if (name == "routing" && value == "split") {
      chosen.routing = Assumptions::Routing::kSplitTies;
    } else if (name == "flash") {
      profile.flash_efficiency = flash_efficiency(value);
    } else {
      user_error(
          "--assume {}={}: there are ring=as-compiled|given|reordered, routing=xy|yx|split and flash=0.5",
          name, value);
    }
  }
  return chosen;
}

topology::LogicalMesh mesh_from(const JsonView& request, const simulate::Workload& workload) {
  const auto given = request.find("mesh");
  if (!given || given->is_null()) return place::infer_mesh(workload);
  topology::LogicalMesh mesh;
  std::int64_t positions = 1;
  for (const JsonView& axis : given->items()) {
    const auto pair = axis.items();
    if (pair.size() != 2) axis.fail("a pair of name and size");
    const std::int64_t size = pair[1].integer();
    if (size < 1 || size > 65536) pair[1].fail("a size from 1 to 65536");
    mesh.axes.push_back(pair[0].string());
    mesh.shape.push_back(static_cast<std::int32_t>(size));
    positions = std::min<std::int64_t>(positions * size, std::int64_t{1} << 32);
  }
  if (positions != workload.partitions) {
    user_error("--mesh has {} positions, the program {} devices", positions, workload.partitions);
  }
  return mesh;
}

Placement order_from_file(const JsonView& file, const Slice& slice) {
  const std::string name = file.at("file").string();
  const Json document = parse_json(file.at("text").string(), name);
  JsonView list(document, name);
  for (const char* key : {"best", "device_coords", "coords"}) {
    if (!list.raw().is_object()) break;
    if (const auto found = list.find(key)) list = *found;
  }
  if (!list.raw().is_array()) {
    list.fail("a list of chip coordinates, or an object with `device_coords` or `coords`");
  }
  std::vector<topology::Coordinates> coordinates;
  for (const JsonView& item : list.items()) {
    topology::Coordinates& chip = coordinates.emplace_back();
    for (const JsonView& number : item.items()) {
      const std::int64_t value = number.integer();
      if (value < 0 || value > 65536) number.fail("a coordinate");
      chip.push_back(static_cast<std::int32_t>(value));
    }
  }
  if (coordinates.size() != slice.chips()) {
    user_error("{}: {} chips listed, {} has {}", name, coordinates.size(), slice.name(), slice.chips());
  }
  try {
    return topology::placement_from_coordinates(slice, coordinates);
  } catch (const UserError& error) {
    user_error("{}: {}", name, error.what());
  }
}

struct Order {
  std::string name;
  Placement placement;
};

Order order_from(const JsonView& request, const Slice& slice, const simulate::Workload& workload) {
  const auto given = request.find("order");
  if (!given || given->is_null()) return {"row-major", topology::row_major(slice)};
  if (given->raw().is_object()) return {given->at("file").string(), order_from_file(*given, slice)};
  const std::string name = given->string();
  if (name == "row-major") return {name, topology::row_major(slice)};
  if (name == "create_device_mesh") {
    const auto mesh = mesh_from(request, workload);
    place::DeviceMesh made = place::create_device_mesh(slice, mesh);
    if (!made.placement)
      user_error("create_device_mesh refuses this mesh on {}: {}", slice.name(), made.refusal);
    return {name, std::move(*made.placement)};
  }
  user_error("no order {}: row-major, create_device_mesh or a file", name);
}

}  // namespace

std::string simulate_service(const std::string& request_text) {
  const Json document = parse_json(request_text, "simulate request");
  const JsonView request(document, "simulate request");
  const std::string path = request.at("path").string();
  const Slice slice = Slice::parse(request.at("slice").string());
  network::Profile profile = profile_from(request, slice);
  const Assumptions assumptions = assume(request, profile);
  const simulate::Mode mode = simulate::parse_mode(request.at("mode").string());
  const ir::Program program = ir::read_program(read_text(path), path);
  const simulate::Workload workload = simulate::lower(program, profile);
  const network::Model model(slice, profile, assumptions);
  const simulate::Replayer replayer(workload, model);  // refuses a slice of another size
  const Order order = order_from(request, slice, workload);
  const simulate::StepTime time = replayer.run(order.placement, mode);
  const simulate::Described described{path, order.name, mode, program.warnings,
                                      replayer.bound(order.placement)};
  if (const auto trace = request.find("trace"); trace && !trace->is_null()) {
    write_atomically(trace->string(),
                     simulate::chrome_trace(program, workload, model, order.placement, mode));
  }
  const Json answer = {{"result", simulate::step_json(time, workload, model, described)},
                       {"text", simulate::step_text(time, workload, model, described)}};
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace aoizora
