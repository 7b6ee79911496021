#include "aoizora/base/error.h"
#include "bindings.h"

namespace aoizora::bindings {

void bind_base(nb::module_& module) {
  // nanobind keeps the exception objects alive for the life of the module.
  nb::exception<UserError>(module, "UserError", PyExc_ValueError);
  nb::exception<InternalError>(module, "InternalError", PyExc_AssertionError);
  nb::exception<Interrupted>(module, "Interrupted", PyExc_KeyboardInterrupt);
}

}  // namespace aoizora::bindings
