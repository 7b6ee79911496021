#include "aoizora/compile/stored_compiler.h"

#include <utility>

namespace aoizora::compile {
namespace {

/// What the inner compiler of a ReplayCompiler says to a job nobody captured.
class NothingCaptured final : public Compiler {
 public:
  Outcome<enumerate::ModelDescription> describe(const ModelRef&, const Cancel&) override { return none(); }
  Outcome<ShardResult> shard(const ShardJob&, const Cancel&) override { return none(); }
  Outcome<CompileResult> compile(const CompileJob&, const Cancel&) override { return none(); }

 private:
  static Failure none() { return {Failure::Kind::kUser, "this job was not captured"}; }
};

bool comes_again(Failure::Kind kind) {
  return kind == Failure::Kind::kCompiler || kind == Failure::Kind::kUnsupported;
}

std::optional<Failure> refusal(const ArtefactStore::Artefact& artefact) {
  const auto failure = artefact.meta.find("failure");
  if (failure == artefact.meta.end()) return std::nullopt;
  const JsonView json(*failure, "cache entry");
  return Failure{failure_kind(json.at("kind").string()).value_or(Failure::Kind::kCompiler),
                 json.at("reason").string()};
}

Json to_json(const Memory& memory) {
  return {{"argument", memory.argument},
          {"output", memory.output},
          {"temporary", memory.temporary},
          {"alias", memory.alias},
          {"code", memory.code}};
}

CompileResult compile_result(ArtefactStore::Artefact artefact) {
  const JsonView meta(artefact.meta, "cache entry");
  const JsonView memory = meta.at("memory");
  CompileResult result;
  result.memory = {memory.at("argument").integer(), memory.at("output").integer(),
                   memory.at("temporary").integer(), memory.at("alias").integer(),
                   memory.at("code").integer()};
  result.seconds = meta.at("seconds").number();
  result.peak_worker_bytes = meta.at("peak_worker_bytes").integer();
  result.reused = true;
  result.hlo = std::move(artefact.text);
  return result;
}

}  // namespace

StoredCompiler::StoredCompiler(ArtefactStore store, Json toolchain, std::shared_ptr<Compiler> inner)
    : store_(std::move(store)), toolchain_(std::move(toolchain)), inner_(std::move(inner)) {}

std::string StoredCompiler::key(const char* operation, Json job) const {
  job["op"] = operation;
  job["toolchain"] = toolchain_;
  return ArtefactStore::key(job);
}

template <typename T>
void StoredCompiler::keep_refusal(const std::string& key, const Outcome<T>& outcome) const {
  const auto* failure = std::get_if<Failure>(&outcome);
  if (failure == nullptr || !comes_again(failure->kind)) return;
  store_.save(key, {{{"failure", {{"kind", failure_name(failure->kind)}, {"reason", failure->reason}}}}, ""});
}

Outcome<enumerate::ModelDescription> StoredCompiler::describe(const ModelRef& model, const Cancel& cancel) {
  const std::string id = key("describe", compile::to_json(model));
  if (auto artefact = store_.load(id)) {
    if (auto failed = refusal(*artefact)) return *failed;
    return enumerate::description_from_json(JsonView(artefact->meta, "cache entry").at("description"));
  }
  auto outcome = inner_->describe(model, cancel);
  if (const auto* made = std::get_if<enumerate::ModelDescription>(&outcome)) {
    store_.save(id, {{{"description", made->raw}}, ""});
  }
  keep_refusal(id, outcome);
  return outcome;
}

Outcome<ShardResult> StoredCompiler::shard(const ShardJob& job, const Cancel& cancel) {
  const std::string id = key("shard", compile::to_json(job));
  if (auto artefact = store_.load(id)) {
    if (auto failed = refusal(*artefact)) return *failed;
    const double seconds = JsonView(artefact->meta, "cache entry").at("seconds").number();
    return ShardResult{std::move(artefact->text), seconds};
  }
  auto outcome = inner_->shard(job, cancel);
  if (const auto* made = std::get_if<ShardResult>(&outcome)) {
    store_.save(id, {{{"seconds", made->seconds}}, made->text});
  }
  keep_refusal(id, outcome);
  return outcome;
}

Outcome<CompileResult> StoredCompiler::compile(const CompileJob& job, const Cancel& cancel) {
  const std::string id = key("compile", compile::to_json(job));
  if (auto artefact = store_.load(id)) {
    if (auto failed = refusal(*artefact)) return *failed;
    return compile_result(std::move(*artefact));
  }
  auto outcome = inner_->compile(job, cancel);
  if (const auto* made = std::get_if<CompileResult>(&outcome)) {
    store_.save(id, {{{"memory", to_json(made->memory)},
                      {"seconds", made->seconds},
                      {"peak_worker_bytes", made->peak_worker_bytes},
                      {"job", compile::to_json(job)},
                      {"toolchain", toolchain_}},
                     made->hlo});
  }
  keep_refusal(id, outcome);
  return outcome;
}

ReplayCompiler::ReplayCompiler(ArtefactStore store, Json toolchain)
    : StoredCompiler(std::move(store), std::move(toolchain), std::make_shared<NothingCaptured>()) {}

}  // namespace aoizora::compile
