#pragma once

#include <string>

#include "aoizora/ir/program.h"
#include "aoizora/simulate/replay.h"

namespace aoizora::simulate {

struct TraceOptions {
  /// Partitions shown, from 0 on. All are replayed.
  std::size_t devices = 16;
};

/// The step as a Chrome trace (JSON, "Trace Event Format"), which ui.perfetto.dev and chrome://tracing open:
/// a process per device, its ops and waits on one track, its collectives in flight above. Every iteration of
/// every loop is there. `program` is what `workload` was lowered from.
std::string chrome_trace(const ir::Program& program, const Workload& workload, const network::Model& model,
                         const topology::Placement& placement, Mode mode, TraceOptions options = {});

}  // namespace aoizora::simulate
