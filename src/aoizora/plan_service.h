#pragma once

#include <string>

#include "aoizora/pipeline.h"

namespace aoizora {

/// `aoizora plan` as the CLI asks for it: one JSON request in, the plan's JSON out. Members of the request:
///   model, options, slice                     what to plan
///   top_k, jobs, seed, evaluations            how hard to look (defaults as in PlanRequest)
///   space, profile                            JSON text of a file, with its name: {"file": ..., "text": ...}
///   compiler_options, toolchain               part of every artefact's key
///   compiler                                  "jax" or "null"
///   worker_argv, cache_folder (null: no cache), compile_timeout_s, compile_memory_bytes
///   core                                      digest of this library: part of a cached plan's key
///   dump_folder
/// A plan that was made before from the same inputs is read from the cache, checked, and given back with
/// `run: {"reused": true}`; number of jobs, time limits and folders are no inputs.
/// UserError names the member that is wrong. Ctrl-C while it runs throws Interrupted.
std::string plan_service(const std::string& request, const Observer& observer);

/// `aoizora candidates`: the same request, only described and enumerated. JSON:
/// `{model, slice, legal: [{id, ...}], illegal: [{id, reason, ...}], duplicates}`.
std::string candidates_service(const std::string& request, const Observer& observer);

}  // namespace aoizora
