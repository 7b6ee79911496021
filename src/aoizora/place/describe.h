#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "aoizora/place/search.h"

/// A ranking for programs (JSON) and for people (text).
namespace aoizora::place {

/// Bit-identical for the same input, seed and evaluation budget: holds no time of day. Step times are µs;
/// coordinates are in order of mesh position (row-major). `top` of the best are listed.
nlohmann::ordered_json ranking_json(const Ranking& ranking, const topology::Slice& slice,
                                    const LogicalMesh& mesh, std::size_t top);

std::string ranking_text(const Ranking& ranking, const topology::Slice& slice, const LogicalMesh& mesh,
                         std::size_t top);

/// What the check in lock-step says, in a sentence.
std::string lock_step_text(const Ranking::LockStepCheck& check);

/// The slice, once for each logical axis above size 1: on each chip the group it is in along that axis (a
/// letter) and its place there; neighbours that follow each other are joined. x runs to the right, y down,
/// z, core and slice one picture after another.
std::string draw_axes(const topology::Placement& placement, const topology::Slice& slice,
                      const LogicalMesh& mesh);

}  // namespace aoizora::place
