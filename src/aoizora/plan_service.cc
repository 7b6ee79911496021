#include "aoizora/plan_service.h"

#include <sys/resource.h>

#include <filesystem>

#include "aoizora/base/interrupt.h"
#include "aoizora/compile/jax_compiler.h"
#include "aoizora/compile/stored_compiler.h"

namespace aoizora {
namespace {

namespace fs = std::filesystem;

/// A folder of our own for texts on their way from a worker; removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "aoizora-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) user_error("{}: no temporary folder can be made", pattern);
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::int64_t positive(const JsonView& json, std::string_view key, std::int64_t otherwise) {
  const auto found = json.find(key);
  if (!found || found->is_null()) return otherwise;
  const std::int64_t value = found->integer();
  if (value < 1) found->fail("a number of at least 1");
  return value;
}

Json object_or_empty(const JsonView& json, std::string_view key) {
  const auto found = json.find(key);
  if (!found || found->is_null()) return Json::object();
  if (!found->raw().is_object()) found->fail("an object");
  return found->raw();
}

PlanRequest request_from(const JsonView& json) {
  PlanRequest request;
  request.model = {json.at("model").string(), object_or_empty(json, "options")};
  request.slice = json.at("slice").string();
  request.survivors = static_cast<std::size_t>(positive(json, "top_k", 6));
  if (const auto habits = json.find("compile_habits")) request.compile_habits = habits->boolean();
  request.jobs = static_cast<unsigned>(positive(json, "jobs", 0));
  request.compiler_options = object_or_empty(json, "compiler_options");
  request.toolchain = object_or_empty(json, "toolchain");
  request.search.evaluations = positive(json, "evaluations", request.search.evaluations);
  if (const auto seed = json.find("seed"); seed && !seed->is_null()) {
    request.search.seed = static_cast<std::uint64_t>(seed->integer());
  }
  if (const auto space = json.find("space"); space && !space->is_null()) {
    request.space = enumerate::Space::parse(space->at("text").string(), space->at("file").string());
  }
  if (const auto profile = json.find("profile"); profile && !profile->is_null()) {
    request.profile = network::Profile::parse(profile->at("text").string(), profile->at("file").string());
  }
  if (const auto cache = json.find("cache_folder"); cache && !cache->is_null())
    request.refusals_file = (fs::path(cache->string()) / "refusals.json").string();
  if (const auto dump = json.find("dump_folder"); dump && !dump->is_null()) {
    request.dump_folder = dump->string();
    std::error_code failed;
    fs::create_directories(request.dump_folder, failed);
    if (failed) user_error("{}: cannot be made: {}", request.dump_folder, failed.message());
  }
  return request;
}

std::optional<std::string> cache_folder(const JsonView& json) {
  const auto cache = json.find("cache_folder");
  if (!cache || cache->is_null()) return std::nullopt;
  return cache->string();
}

std::function<void(const std::string&)> warn_through(const Observer& observer) {
  return [observer](const std::string& text) {
    if (observer) observer({Event::Kind::kWarning, "cache", text, 0, 0, 0});
  };
}

std::shared_ptr<compile::Compiler> compiler_from(const JsonView& json, const PlanRequest& request,
                                                 const fs::path& scratch, const Observer& observer) {
  std::shared_ptr<compile::Compiler> compiler;
  if (const std::string name = json.at("compiler").string(); name == "null") {
    compiler = std::make_shared<compile::NullCompiler>();
  } else if (name == "jax") {
    compile::JaxCompiler::Settings settings;
    for (const JsonView& argument : json.at("worker_argv").items())
      settings.worker_argv.push_back(argument.string());
    settings.scratch = scratch;
    settings.compile_limits.timeout = std::chrono::seconds(positive(json, "compile_timeout_s", 600));
    settings.compile_limits.memory_bytes = positive(json, "compile_memory_bytes", std::int64_t{4} << 30);
    settings.shard_limits.timeout = settings.compile_limits.timeout;
    settings.shard_limits.memory_bytes = settings.compile_limits.memory_bytes;
    compiler = std::make_shared<compile::JaxCompiler>(std::move(settings));
  } else {
    json.at("compiler").fail("\"jax\" or \"null\"");
  }
  const auto folder = cache_folder(json);
  if (!folder) return compiler;
  compile::ArtefactStore store(fs::path(*folder) / "artefacts", warn_through(observer));
  return std::make_shared<compile::StoredCompiler>(std::move(store), request.toolchain, std::move(compiler));
}

/// What a whole plan depends on; nullopt when plans are not to be kept.
std::optional<std::string> plan_memo_key(const JsonView& json) {
  if (!cache_folder(json) || !json.find("core") || json.at("compiler").string() == "null")
    return std::nullopt;
  Json inputs = json.raw();
  for (const char* no_input :
       {"jobs", "worker_argv", "cache_folder", "compile_timeout_s", "compile_memory_bytes", "dump_folder"}) {
    inputs.erase(no_input);
  }
  inputs["op"] = "plan";
  return compile::ArtefactStore::key(inputs);
}

/// A kept plan that still reads as one. Anything else is set aside by the store, or planned again.
std::optional<plan::Plan> kept_plan(const compile::ArtefactStore& store, const std::string& key) {
  const auto artefact = store.load(key);
  if (!artefact) return std::nullopt;
  try {
    plan::Plan plan = plan::from_json(JsonView(artefact->meta, "cached plan"));
    plan.run = {{"reused", true}};
    return plan;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::int64_t peak_memory_bytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;  // Linux counts in KiB
}

}  // namespace

std::string candidates_service(const std::string& text, const Observer& observer) {
  Cancel cancel;
  const InterruptScope interrupt(cancel);
  const Json document = parse_json(text, "request");
  const JsonView json(document, "request");
  const PlanRequest request = request_from(json);
  const auto slice = topology::Slice::parse(request.slice);
  const ScratchFolder scratch;
  const auto compiler = compiler_from(json, request, scratch.path(), observer);
  auto outcome = compiler->describe(request.model, cancel);
  if (cancel.requested()) throw Interrupted("interrupted");
  if (const auto* failure = std::get_if<compile::Failure>(&outcome)) user_error("{}", failure->reason);
  const auto& model = std::get<enumerate::ModelDescription>(outcome);
  const auto found = enumerate::enumerate(model, static_cast<std::int64_t>(slice.chips()), request.space);
  Json answer = {
      {"model", model.name}, {"slice", slice.name()}, {"legal", Json::array()}, {"illegal", Json::array()}};
  for (const auto& candidate : found.legal) {
    answer["legal"].push_back({{"id", candidate.id()}});
    answer["legal"].back().update(enumerate::to_json(candidate));
  }
  for (const auto& [candidate, reason] : found.illegal) {
    answer["illegal"].push_back({{"id", candidate.id()}, {"reason", reason}});
    answer["illegal"].back().update(enumerate::to_json(candidate));
  }
  answer["duplicates"] = found.duplicates;
  return answer.dump(1) + "\n";
}

std::string plan_service(const std::string& text, const Observer& observer) {
  Cancel cancel;
  const InterruptScope interrupt(cancel);
  const Json document = parse_json(text, "request");
  const JsonView json(document, "request");
  const PlanRequest request = request_from(json);
  const auto key = plan_memo_key(json);
  std::optional<compile::ArtefactStore> plans;
  if (key) {
    plans.emplace(fs::path(*cache_folder(json)) / "plans", warn_through(observer));
    // A kept plan has no stages to dump.
    auto plan = request.dump_folder.empty() ? kept_plan(*plans, *key) : std::nullopt;
    if (plan) return plan::to_json(*plan).dump(1) + "\n";
  }
  const ScratchFolder scratch;
  const auto compiler = compiler_from(json, request, scratch.path(), observer);
  plan::Plan plan = make_plan(request, *compiler, observer, cancel);
  if (key) plans->save(*key, {plan::to_json(plan), ""});
  plan.run["planner_peak_bytes"] = peak_memory_bytes();
  return plan::to_json(plan).dump(1) + "\n";
}

}  // namespace aoizora
