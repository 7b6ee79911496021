#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "aoizora/compile/compiler.h"
#include "aoizora/compile/worker_process.h"

namespace aoizora::compile {

/// Drives JAX, Shardy and libtpu through worker processes (python/aoizora/worker.py: one JSON line per
/// request). Describing and sharding use a pool of long-lived workers, since importing JAX costs seconds;
/// each compile has a process of its own, since libtpu may abort it.
class JaxCompiler final : public Compiler {
 public:
  struct Settings {
    std::vector<std::string> worker_argv;  // `{sys.executable, -m, aoizora.worker}`
    std::filesystem::path scratch;         // where workers write texts before they are stored; must exist
    WorkerLimits compile_limits;
    WorkerLimits shard_limits;
  };
  explicit JaxCompiler(Settings settings);
  ~JaxCompiler() override;

  Outcome<enumerate::ModelDescription> describe(const ModelRef& model, const Cancel& cancel) override;
  Outcome<ShardResult> shard(const ShardJob& job, const Cancel& cancel) override;
  Outcome<CompileResult> compile(const CompileJob& job, const Cancel& cancel) override;

 private:
  class PooledWorker;
  std::unique_ptr<WorkerProcess> take();
  void give_back(std::unique_ptr<WorkerProcess> worker);

  Settings settings_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<WorkerProcess>> idle_;
};

}  // namespace aoizora::compile
