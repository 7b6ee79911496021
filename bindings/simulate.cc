#include <nanobind/stl/string.h>

#include "aoizora/simulate_service.h"
#include "bindings.h"

namespace aoizora::bindings {
namespace {

std::string simulate(const std::string& request) {
  const nb::gil_scoped_release release;
  return simulate_service(request);
}

}  // namespace

void bind_simulate(nb::module_& module) {
  using namespace nb::literals;
  module.def("simulate", &simulate, "request"_a);
}

}  // namespace aoizora::bindings
