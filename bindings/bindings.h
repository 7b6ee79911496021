#pragma once

#include <nanobind/nanobind.h>

/// One function per folder of src/aoizora; each lives in bindings/FOLDER.cc and holds no logic.
/// Everything crosses as strings (JSON or text), so that the Python side needs no mirror of the C++ types.
namespace aoizora::bindings {

namespace nb = nanobind;

void bind_base(nb::module_& module);
void bind_ir(nb::module_& module);
void bind_network(nb::module_& module);
void bind_pipeline(nb::module_& module);
void bind_simulate(nb::module_& module);
void bind_place(nb::module_& module);
void bind_topology(nb::module_& module);

}  // namespace aoizora::bindings
