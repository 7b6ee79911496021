#include <nanobind/stl/string.h>

#include "aoizora/place/rank_service.h"
#include "bindings.h"

namespace aoizora::bindings {
namespace {

std::string rank(const std::string& request) {
  const nb::gil_scoped_release release;
  return place::rank_service(request);
}

}  // namespace

void bind_place(nb::module_& module) {
  using namespace nb::literals;
  module.def("rank", &rank, "request"_a);
}

}  // namespace aoizora::bindings
