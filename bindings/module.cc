#include "bindings.h"

NB_MODULE(_core, module) {
  using namespace aoizora::bindings;
  module.doc() = "The C++ core of AoiZora. JSON in, JSON out; see the headers in src/aoizora.";
  bind_base(module);
  bind_ir(module);
  bind_network(module);
  bind_pipeline(module);
  bind_simulate(module);
  bind_place(module);
  bind_topology(module);
}
