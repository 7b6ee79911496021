#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aoizora/base/cancel.h"
#include "aoizora/base/json.h"
#include "aoizora/enumerate/candidate.h"
#include "aoizora/enumerate/model_description.h"
#include "aoizora/topology/slice.h"

namespace aoizora::compile {

/// Why a job gave no result. A failed candidate never ends the run.
struct Failure {
  enum class Kind : std::uint8_t {
    kUser,         // the request is wrong (unknown model, an option of the wrong type)
    kUnsupported,  // a stage can't do this program correctly and says so
    kCompiler,     // the compiler refuses
    kDied,         // the worker process ended (libtpu aborts on some inputs)
    kTimedOut,
    kOutOfMemory,
    kInterrupted,
  };
  Kind kind{};
  std::string reason;  // one line
};
std::string_view failure_name(Failure::Kind kind);
std::optional<Failure::Kind> failure_kind(std::string_view name);

template <typename T>
using Outcome = std::variant<T, Failure>;

/// A model by name and its options (`{"resolution": "480p", "frames": 81, ...}`).
struct ModelRef {
  std::string name;
  Json options = Json::object();
};

struct ShardJob {
  ModelRef model;
  std::string slice;
  enumerate::Candidate candidate;
};

/// StableHLO after Shardy: local shapes, explicit collectives; MLIR generic form.
struct ShardResult {
  std::string text;
  double seconds = 0;
};

struct CompileJob {
  ModelRef model;
  std::string slice;
  enumerate::Candidate candidate;
  /// Chip of each logical position (row-major); empty: the worker's default order.
  std::vector<topology::Coordinates> device_coords;
  Json compiler_options = Json::object();
};

/// What one chip needs, from the compiler's memory analysis, in bytes.
struct Memory {
  std::int64_t argument = 0;
  std::int64_t output = 0;
  std::int64_t temporary = 0;
  std::int64_t alias = 0;
  std::int64_t code = 0;
  std::int64_t total() const { return argument + output + temporary + code - alias; }
};

struct CompileResult {
  std::string hlo;
  Memory memory;
  double seconds = 0;
  std::int64_t peak_worker_bytes = 0;
  bool reused = false;  // from the artefact store
};

/// The way to the compiler. Thread-safe: the pipeline calls from as many threads as there are jobs.
/// JaxCompiler drives JAX and libtpu in worker processes, ReplayCompiler reads captured artefacts,
/// NullCompiler has no compiler.
class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual Outcome<enumerate::ModelDescription> describe(const ModelRef& model, const Cancel& cancel) = 0;
  virtual Outcome<ShardResult> shard(const ShardJob& job, const Cancel& cancel) = 0;
  virtual Outcome<CompileResult> compile(const CompileJob& job, const Cancel& cancel) = 0;
};

/// The parts of a job that its result depends on, as JSON: what artefacts are keyed by, and the worker's
/// request.
Json to_json(const ModelRef& model);
Json to_json(const ShardJob& job);
Json to_json(const CompileJob& job);

/// Refuses every job with one clear line; what `plan` uses where JAX or libtpu is not installed.
class NullCompiler final : public Compiler {
 public:
  Outcome<enumerate::ModelDescription> describe(const ModelRef&, const Cancel&) override { return none(); }
  Outcome<ShardResult> shard(const ShardJob&, const Cancel&) override { return none(); }
  Outcome<CompileResult> compile(const CompileJob&, const Cancel&) override { return none(); }

 private:
  static Failure none() {
    return {Failure::Kind::kUser,
            "no compiler is installed: pip install jax libtpu (x86-64 Linux, Python >= 3.12)"};
  }
};

}  // namespace aoizora::compile
