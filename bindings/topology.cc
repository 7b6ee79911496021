#include <nanobind/stl/string.h>

#include "aoizora/topology/describe.h"
#include "aoizora/topology/graph_file.h"
#include "bindings.h"

namespace aoizora::bindings {
namespace {

std::string topology(const std::string& slice, bool as_json) {
  const nb::gil_scoped_release release;
  const topology::Slice loaded = topology::load_slice(slice);
  return as_json ? topology::topology_json(loaded).dump(2) + "\n" : topology::topology_text(loaded);
}

}  // namespace

void bind_topology(nb::module_& module) {
  using namespace nb::literals;
  module.def("topology", &topology, "slice"_a, "as_json"_a);
}

}  // namespace aoizora::bindings
