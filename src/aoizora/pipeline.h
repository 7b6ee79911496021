#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "aoizora/base/cancel.h"
#include "aoizora/compile/compiler.h"
#include "aoizora/enumerate/space.h"
#include "aoizora/network/profile.h"
#include "aoizora/place/search.h"
#include "aoizora/plan/plan.h"

/// The spine: each stage once, in this order (docs/map.md).
namespace aoizora {

/// What a person watching wants to know while it runs.
struct Event {
  enum class Kind : std::uint8_t { kBegin, kProgress, kEnd, kWarning };
  Kind kind{};
  std::string stage;
  std::string text;  // what was just done, or the warning
  std::size_t done = 0;
  std::size_t total = 0;
  double seconds = 0;  // kEnd: of the stage
};
/// Called from one thread at a time.
using Observer = std::function<void(const Event&)>;

struct PlanRequest {
  compile::ModelRef model;
  std::string slice;
  enumerate::Space space = enumerate::Space::builtin();
  std::optional<network::Profile> profile;  // the built-in one of the slice's kind when not given
  std::size_t survivors = 6;                // --top-k
  bool compile_habits = false;              // compile the legal ones of enumerate::habits besides
  unsigned jobs = 0;                        // 0: one per core
  Json compiler_options = Json::object();
  Json toolchain = Json::object();  // versions that the plan rests on
  place::Options search;
  /// Device orders that the compiler refused, from run to run (place/refusals.h); empty: not kept.
  std::string refusals_file;
  /// When set, each stage writes what it decided here, numbered: `2-shard.json`.
  std::string dump_folder;
};

/// Plans. UserError: bad input, or no candidate survives (with the reasons). Interrupted: Ctrl-C; finished
/// compiles stay in the compiler's store. The same request and compiler answers give the same plan apart from
/// `run`, with any number of jobs.
plan::Plan make_plan(const PlanRequest& request, compile::Compiler& compiler, const Observer& observer,
                     const Cancel& cancel);

}  // namespace aoizora
