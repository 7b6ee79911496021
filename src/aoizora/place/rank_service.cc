#include "aoizora/place/rank_service.h"

#include <chrono>

#include "aoizora/base/file.h"
#include "aoizora/base/interrupt.h"
#include "aoizora/base/json.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/baselines.h"
#include "aoizora/place/describe.h"
#include "aoizora/place/explain.h"

namespace aoizora::place {
namespace {

using Clock = std::chrono::steady_clock;

class Stopwatch {
 public:
  double lap() {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

LogicalMesh mesh_from(const JsonView& view) {
  LogicalMesh mesh;
  for (const JsonView& axis : view.items()) {
    const auto pair = axis.items();
    if (pair.size() != 2) axis.fail("a pair of name and size");
    const std::int64_t size = pair[1].integer();
    if (size < 1 || size > 65536) pair[1].fail("a size from 1 to 65536");
    mesh.axes.push_back(pair[0].string());
    mesh.shape.push_back(static_cast<std::int32_t>(size));
  }
  return mesh;
}

template <typename T>
T bounded(const JsonView& view, std::int64_t low, std::int64_t high) {
  const std::int64_t value = view.integer();
  if (value < low || value > high) view.fail(fmt::format("a number from {} to {}", low, high));
  return static_cast<T>(value);
}

std::vector<std::string> unpriced_warnings(const simulate::Workload& workload) {
  std::vector<std::string> warnings = workload.warnings;
  if (workload.unpriced.value > 0.01 * workload.compute.value) {
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, workload.unpriced_ops.size()); ++i) {
      names += fmt::format("{}{}", i == 0 ? "" : ", ", workload.unpriced_ops[i]);
    }
    warnings.push_back(fmt::format("{:.1f} % of the compute time is of ops that nothing prices: {}",
                                   100 * (workload.unpriced / workload.compute), names));
  }
  return warnings;
}

}  // namespace

std::string rank_service(const std::string& request_text) {
  const Json document = parse_json(request_text, "rank request");
  const JsonView request(document, "rank request");
  Stopwatch watch;
  Json seconds;

  const std::string path = request.at("path").string();
  const topology::Slice slice = topology::Slice::parse(request.at("slice").string());
  const JsonView given_profile = request.at("profile");
  const network::Profile profile =
      given_profile.is_null()
          ? network::Profile::builtin(slice.kind())
          : network::Profile::parse(given_profile.at("text").string(), given_profile.at("file").string());
  const ir::Program program = ir::read_program(read_text(path), path);
  const simulate::Workload workload = simulate::lower(program, profile);
  seconds["read"] = watch.lap();

  const JsonView given_mesh = request.at("mesh");
  const LogicalMesh mesh = given_mesh.is_null() ? infer_mesh(workload) : mesh_from(given_mesh);
  Options options;
  options.seed = static_cast<std::uint64_t>(request.at("seed").integer());
  options.evaluations = request.at("evaluations").integer();
  options.replayed = bounded<std::size_t>(request.at("replayed"), 1, 100'000);
  options.workers = bounded<unsigned>(request.at("workers"), 0, 1024);
  if (request.at("assume").string() == "default") options.assumptions = {network::Assumptions{}};

  const JsonView budget = request.at("budget_s");
  std::optional<Clock::time_point> deadline;
  if (!budget.is_null()) {
    deadline = Clock::now() +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget.number()));
    // A budget of time is spent on the search itself, not cut short by one of evaluations.
    options.evaluations = std::max<std::int64_t>(options.evaluations, 1'000'000'000'000);
    options.search_seconds = 0.6 * budget.number();
  }
  Cancel cancel = deadline ? Cancel(*deadline) : Cancel();
  Ranking ranking;
  {
    const InterruptScope interrupt(cancel);
    ranking = rank(workload, slice, profile, mesh, options, cancel);
  }
  seconds["rank"] = watch.lap();

  std::vector<std::string> warnings = program.warnings;
  for (std::string& warning : unpriced_warnings(workload)) warnings.push_back(std::move(warning));
  if (given_mesh.is_null()) {
    warnings.push_back(fmt::format("no --mesh: {} is what the program's groups tell", mesh_text(mesh)));
  }
  warnings.emplace_back(
      "HLO does not say which device order it was compiled for; rings are read as compiled for row_major");

  const auto top = bounded<std::size_t>(request.at("top"), 0, 100'000);
  Json answer;
  answer["ranking"] = ranking_json(ranking, slice, mesh, top);
  answer["program"] = {{"file", path},
                       {"module", std::string(program.module)},
                       {"devices", program.devices()},
                       {"compiled_order", "row_major (assumed)"},
                       {"warnings", warnings}};
  answer["seconds"] = seconds;
  std::string text = ranking_text(ranking, slice, mesh, top);
  for (const std::string& warning : warnings) text += "note: " + warning + "\n";
  if (const auto names = request.find("explain"); names && !names->is_null()) {
    const auto pair = names->items();
    if (pair.size() != 2) names->fail("a pair of placements");
    const Explanation explanation =
        explain(workload, slice, profile, placement_by_name(ranking, pair[0].string()),
                placement_by_name(ranking, pair[1].string()));
    answer["ranking"]["explanation"] = explanation_json(explanation);
    text += "\n" + explanation_text(explanation);
  }
  answer["text"] = text;
  return answer.dump();
}

}  // namespace aoizora::place
