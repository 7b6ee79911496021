#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "aoizora/base/error.h"
#include "aoizora/network/calibrate.h"
#include "aoizora/network/cost_service.h"
#include "aoizora/place/search.h"
#include "bindings.h"

namespace aoizora::bindings {
namespace {

std::string cost(const std::string& request, bool as_json) {
  const nb::gil_scoped_release release;
  return network::cost_service(request, as_json);
}

std::string calibrate(const std::string& request) {
  const nb::gil_scoped_release release;
  return network::calibrate_service(request);
}

std::string device_mesh_order(const std::string& slice_name,
                              const std::vector<std::pair<std::string, std::int32_t>>& axes) {
  const topology::Slice slice = topology::Slice::parse(slice_name);
  place::LogicalMesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back(name);
    mesh.shape.push_back(size);
  }
  const place::DeviceMesh order = place::create_device_mesh(slice, mesh);
  if (!order.placement) user_error("create_device_mesh: {}", order.refusal);
  nlohmann::json coordinates;
  for (const Chip chip : *order.placement) coordinates.push_back(slice.coordinates(chip));
  return coordinates.dump();
}

}  // namespace

void bind_network(nb::module_& module) {
  using namespace nb::literals;
  module.def("cost", &cost, "request"_a, "as_json"_a);
  module.def("calibrate", &calibrate, "request"_a);
  module.def("device_mesh_order", &device_mesh_order, "slice"_a, "mesh"_a);
  module.def("calibration_text", &network::calibration_text, "calibration"_a);
}

}  // namespace aoizora::bindings
