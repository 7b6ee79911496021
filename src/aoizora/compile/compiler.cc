#include "aoizora/compile/compiler.h"

#include <array>
#include <utility>

namespace aoizora::compile {
namespace {

constexpr std::array<std::pair<Failure::Kind, std::string_view>, 7> kNames{{
    {Failure::Kind::kUser, "user"},
    {Failure::Kind::kUnsupported, "unsupported"},
    {Failure::Kind::kCompiler, "compiler"},
    {Failure::Kind::kDied, "died"},
    {Failure::Kind::kTimedOut, "timed out"},
    {Failure::Kind::kOutOfMemory, "out of memory"},
    {Failure::Kind::kInterrupted, "interrupted"},
}};

}  // namespace

std::string_view failure_name(Failure::Kind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::optional<Failure::Kind> failure_kind(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

Json to_json(const ModelRef& model) { return {{"model", model.name}, {"options", model.options}}; }

Json to_json(const ShardJob& job) {
  Json json = to_json(job.model);
  json["slice"] = job.slice;
  json["candidate"] = enumerate::to_json(job.candidate);
  return json;
}

Json to_json(const CompileJob& job) {
  Json json = to_json(job.model);
  json["slice"] = job.slice;
  json["candidate"] = enumerate::to_json(job.candidate);
  json["device_coords"] = job.device_coords.empty() ? Json(nullptr) : Json(job.device_coords);
  json["compiler_options"] = job.compiler_options;
  return json;
}

}  // namespace aoizora::compile
