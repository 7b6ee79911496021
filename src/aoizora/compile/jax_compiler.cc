#include "aoizora/compile/jax_compiler.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "aoizora/base/file.h"

namespace aoizora::compile {
namespace {

// Compile-only TPU devices: no TPU is looked for, the CPU back end serves everything else, and several libtpu
// processes may run at once (they would stop on a lock file).
const std::vector<std::string> kEnvironment{"JAX_PLATFORMS=cpu", "TPU_SKIP_MDS_QUERY=1",
                                            "ALLOW_MULTIPLE_LIBTPU_LOAD=1", "PYTHONUNBUFFERED=1"};

struct Answer {
  Json document;
  WorkerReply reply;
};

Failure from_status(const WorkerReply& reply) {
  switch (reply.status) {
    case WorkerReply::Status::kDied:
      return {Failure::Kind::kDied, "the worker " + reply.reason};
    case WorkerReply::Status::kTimedOut:
      return {Failure::Kind::kTimedOut, reply.reason};
    case WorkerReply::Status::kOutOfMemory:
      return {Failure::Kind::kOutOfMemory, "the worker " + reply.reason};
    case WorkerReply::Status::kCancelled:
    case WorkerReply::Status::kOk:
      break;
  }
  return {Failure::Kind::kInterrupted, "interrupted"};
}

Outcome<Answer> ask(WorkerProcess& worker, const Json& request, const WorkerLimits& limits,
                    const Cancel& cancel) {
  WorkerReply reply = worker.request(request.dump(), limits, cancel);
  if (reply.status != WorkerReply::Status::kOk) return from_status(reply);
  Json document = parse_json(reply.line, "the worker's answer");
  const JsonView json(document, "the worker's answer");
  if (!json.at("ok").boolean()) {
    const JsonView error = json.at("error");
    const auto kind = failure_kind(error.at("kind").string());
    return Failure{kind.value_or(Failure::Kind::kCompiler), error.at("message").string()};
  }
  return Answer{std::move(document), std::move(reply)};
}

/// A text that a worker writes and we take over; removed in any case.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& folder) {
    static std::atomic<unsigned> counter{0};
    path_ = folder / fmt::format("worker.{}.{}", ::getpid(), counter.fetch_add(1));
  }
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Memory memory_from_json(const JsonView& json) {
  Memory memory;
  memory.argument = json.at("argument_bytes").integer();
  memory.output = json.at("output_bytes").integer();
  memory.temporary = json.at("temp_bytes").integer();
  memory.alias = json.at("alias_bytes").integer();
  memory.code = json.at("code_bytes").integer();
  return memory;
}

}  // namespace

JaxCompiler::JaxCompiler(Settings settings) : settings_(std::move(settings)) {}
JaxCompiler::~JaxCompiler() = default;

std::unique_ptr<WorkerProcess> JaxCompiler::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
  }
  return std::make_unique<WorkerProcess>(settings_.worker_argv, kEnvironment);
}

void JaxCompiler::give_back(std::unique_ptr<WorkerProcess> worker) {
  if (!worker->alive()) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

Outcome<enumerate::ModelDescription> JaxCompiler::describe(const ModelRef& model, const Cancel& cancel) {
  Json request = to_json(model);
  request["op"] = "describe";
  auto worker = take();
  auto answer = ask(*worker, request, settings_.shard_limits, cancel);
  give_back(std::move(worker));
  if (auto* failure = std::get_if<Failure>(&answer)) return std::move(*failure);
  const Json& document = std::get<Answer>(answer).document;
  return enumerate::description_from_json(JsonView(document, "the worker's answer").at("description"));
}

Outcome<ShardResult> JaxCompiler::shard(const ShardJob& job, const Cancel& cancel) {
  const ScratchFile out(settings_.scratch);
  Json request = to_json(job);
  request["op"] = "shard";
  request["out"] = out.path().string();
  auto worker = take();
  auto answer = ask(*worker, request, settings_.shard_limits, cancel);
  give_back(std::move(worker));
  if (auto* failure = std::get_if<Failure>(&answer)) return std::move(*failure);
  return ShardResult{read_text(out.path()), std::get<Answer>(answer).reply.seconds};
}

Outcome<CompileResult> JaxCompiler::compile(const CompileJob& job, const Cancel& cancel) {
  const ScratchFile out(settings_.scratch);
  Json request = to_json(job);
  request["op"] = "compile";
  request["out"] = out.path().string();
  WorkerProcess worker(settings_.worker_argv, kEnvironment);
  auto answer = ask(worker, request, settings_.compile_limits, cancel);
  if (auto* failure = std::get_if<Failure>(&answer)) return std::move(*failure);
  const Answer& good = std::get<Answer>(answer);
  CompileResult result;
  result.hlo = read_text(out.path());
  result.memory = memory_from_json(JsonView(good.document, "the worker's answer").at("memory"));
  result.seconds = good.reply.seconds;
  result.peak_worker_bytes = good.reply.peak_bytes;
  return result;
}

}  // namespace aoizora::compile
