#pragma once

#include <memory>

#include "aoizora/compile/artefact_store.h"
#include "aoizora/compile/compiler.h"

namespace aoizora::compile {

/// Keeps what another compiler makes in an ArtefactStore and answers from it. Keys hold the job and
/// `toolchain` (compiler and JAX versions, hash of our JAX side), so nothing stale is ever used. Refusals of
/// the compiler are kept too, since they come again; deaths, time-outs and interruptions are not. Without an
/// inner compiler it only replays: ReplayCompiler.
class StoredCompiler : public Compiler {
 public:
  StoredCompiler(ArtefactStore store, Json toolchain, std::shared_ptr<Compiler> inner);

  Outcome<enumerate::ModelDescription> describe(const ModelRef& model, const Cancel& cancel) override;
  Outcome<ShardResult> shard(const ShardJob& job, const Cancel& cancel) override;
  Outcome<CompileResult> compile(const CompileJob& job, const Cancel& cancel) override;

 private:
  std::string key(const char* operation, Json job) const;
  template <typename T>
  void keep_refusal(const std::string& key, const Outcome<T>& outcome) const;

  ArtefactStore store_;
  Json toolchain_;
  std::shared_ptr<Compiler> inner_;
};

/// Answers from captured artefacts alone: how the whole pipeline runs in C++ tests.
class ReplayCompiler final : public StoredCompiler {
 public:
  ReplayCompiler(ArtefactStore store, Json toolchain);
};

}  // namespace aoizora::compile
