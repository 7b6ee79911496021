#pragma once

#include <string>
#include <vector>

#include "aoizora/base/json.h"
#include "aoizora/simulate/step_program.h"
#include "aoizora/simulate/workload.h"
#include "aoizora/topology/mesh.h"

/// Programs for the testbed: one straight list of actions and the collectives they name, as a compact file.
namespace aoizora::testbed {

struct Program {
  std::string name;
  std::string slice;   // `v5e:2x4`, or the name of a graph file beside the program
  std::string source;  // where it comes from, for people
  topology::LogicalMesh mesh;
  simulate::Workload workload;  // one block without loops
};

/// Loops unrolled to at most `trips` iterations each.
simulate::Workload straightened(const simulate::Workload& workload, std::int64_t trips);
/// Bytes times `bytes` (at least 1 of each collective), durations times `time`.
simulate::Workload scaled(const simulate::Workload& workload, double bytes, double time);

/// Gloo's algorithms instead of libtpu's, as XLA's CPU back end calls them (openxla/xla gloo_communicator.cc;
/// gloo allgather.cc, allreduce.cc): rings of one direction in the order of the group, all-gather to the next
/// rank and all-reduce to the one before; all-to-all and permute send everything at once. A reduce-scatter is
/// refused: Gloo's recursive halving is not modelled.
simulate::Workload with_gloo(const simulate::Workload& workload);

Json to_json(const Program& program);
/// UserError with the file and place when it is not such a program.
Program read_program(const std::string& file);

}  // namespace aoizora::testbed
