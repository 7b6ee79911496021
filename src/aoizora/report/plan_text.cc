#include "aoizora/report/plan_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace aoizora::report {
namespace {

std::string milliseconds(Micros time) { return fmt::format("{:.2f} ms", time.value / 1e3); }

std::string time_or_dash(const std::optional<Micros>& time) { return time ? milliseconds(*time) : "-"; }

class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  std::string bold(const std::string& text) const { return paint("1", text); }
  std::string good(const std::string& text) const { return paint("32", text); }
  std::string faint(const std::string& text) const { return paint("2", text); }

 private:
  std::string paint(const char* code, const std::string& text) const {
    return colour_ ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
  }
  bool colour_;
};

std::string headline(const plan::Plan& plan) {
  std::string text = plan.model;
  const auto option = [&](const char* name) -> std::string {
    const auto found = plan.model_options.find(name);
    if (found == plan.model_options.end()) return "";
    return found->is_string() ? found->get<std::string>() : found->dump();
  };
  if (const auto resolution = option("resolution"); !resolution.empty()) text += ", " + resolution;
  if (const auto frames = option("frames"); !frames.empty()) text += fmt::format(", {} frames", frames);
  if (const auto guidance = option("cfg"); !guidance.empty()) {
    text += guidance == "true" ? ", with guidance (two forwards a step)" : ", without guidance";
  }
  return fmt::format("{} on {} ({} chips)", text, plan.slice, plan.device_coords.size());
}

std::string step_line(const plan::Plan& plan) {
  return fmt::format("  predicted step  {} = {} compute + {} waiting for collectives + {} waiting for copies",
                     milliseconds(plan.predicted.step), milliseconds(plan.predicted.compute),
                     milliseconds(plan.predicted.exposed_comm), milliseconds(plan.predicted.exposed_copies));
}

std::string runner_up_line(const plan::Plan& plan) {
  if (!plan.runner_up) return "  runner-up       none";
  return fmt::format("  runner-up       {} on {}: {} ({:+.1f} %)", plan.runner_up->candidate,
                     plan.runner_up->placement, milliseconds(plan.runner_up->step), 100 * plan.margin);
}

std::string rules_line(const plan::Plan& plan) {
  std::vector<std::string> parts;
  for (const auto& [logical, axes] : plan.winner.axis_rules) {
    if (plan.winner.ways(logical) > 1)
      parts.push_back(fmt::format("{} -> {}", logical, fmt::join(axes, ",")));
  }
  return fmt::format("  axis rules      {}", fmt::join(parts, "; "));
}

std::string baseline_line(const plan::Plan& plan, const plan::Baseline& baseline, const std::string& note) {
  std::string against;
  if (baseline.step) against = fmt::format("{:+.1f} %", 100 * (*baseline.step / plan.predicted.step - 1));
  return fmt::format("  {:<20} {:>12} {:>9}  {}\n", baseline.name, time_or_dash(baseline.step), against,
                     note);
}

std::string baseline_table(const plan::Plan& plan) {
  std::string orders = "\nThe same program on other device orders\n";
  std::string habits;
  for (const auto& baseline : plan.baselines) {
    if (baseline.candidate.empty()) {
      orders += baseline_line(plan, baseline, baseline.note);
    } else {
      habits += baseline_line(plan, baseline, fmt::format("{} ({})", baseline.candidate, baseline.note));
    }
  }
  if (habits.empty()) return orders;
  return orders + "\nUsual shardings on JAX's default device order (--habits compiles the legal ones)\n" +
         habits;
}

/// Winner first, then by predicted time, then by estimate; illegal ones last.
std::vector<const plan::CandidateRecord*> in_order(const plan::Plan& plan) {
  std::vector<const plan::CandidateRecord*> records;
  for (const auto& record : plan.candidates) records.push_back(&record);
  const auto key = [](const plan::CandidateRecord* record) {
    const double far = 1e300;
    return std::tuple(record->status != plan::Status::kWinner, record->predicted.value_or(Micros(far)),
                      record->precompile.value_or(Micros(far)));
  };
  std::stable_sort(records.begin(), records.end(),
                   [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return records;
}

std::string candidate_table(const plan::Plan& plan, const TextOptions& options, const Painter& paint) {
  const auto records = in_order(plan);
  std::size_t width = 0;
  std::map<plan::Status, int> counts;
  for (const auto* record : records) ++counts[record->status];
  const std::size_t shown = std::min(records.size(), options.candidates);
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, records[i]->candidate.id().size());

  std::string text =
      fmt::format("\n{} candidates: 1 winner, {} more compiled, {} pruned, {} failed, {} illegal\n",
                  records.size(), counts[plan::Status::kCompiled], counts[plan::Status::kPruned],
                  counts[plan::Status::kFailed], counts[plan::Status::kIllegal]);
  text += paint.faint(fmt::format("  {:<{}}  {:<9} {:>12} {:>12}  {}\n", "candidate", width, "status",
                                  "estimate", "predicted", "why"));
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& record = *records[i];
    std::string line = fmt::format("  {:<{}}  {:<9} {:>12} {:>12}  {}", record.candidate.id(), width,
                                   plan::status_name(record.status), time_or_dash(record.precompile),
                                   time_or_dash(record.predicted), record.reason);
    text += (record.status == plan::Status::kWinner ? paint.good(line) : line) + "\n";
  }
  if (shown < records.size()) text += fmt::format("  ... {} more in the plan file\n", records.size() - shown);
  return text;
}

std::string assumption_lines(const plan::Plan& plan) {
  std::string text;
  for (const auto& item : plan.by_assumption) {
    const double loss = item.chosen / item.best - 1;
    text += fmt::format("  {:<40} this plan {}, create_device_mesh {}, {}\n", item.name,
                        milliseconds(item.chosen), time_or_dash(item.usual),
                        item.winner == plan.winner.id() && loss < 5e-4
                            ? std::string("none better")
                            : fmt::format("best {} with {}", milliseconds(item.best), item.winner));
  }
  return text.empty() ? text : "\nWhat no public source settles\n" + text;
}

std::string run_lines(const plan::Plan& plan, bool verbose) {
  if (plan.run.value("reused", false))
    return "\nThis plan was made before from the same inputs; --no-cache plans again.\n";
  std::string text = "\nTime";
  for (const auto& stage : plan.run.value("stages", Json::array())) {
    text += fmt::format("  {} {:.1f} s", stage.value("stage", ""), stage.value("seconds", 0.0));
  }
  text += "\n";
  if (!verbose) return text;
  for (const auto& compile : plan.run.value("compiles", Json::array())) {
    text += fmt::format("  compile {}: {:.1f} s, worker peak {:.2f} GiB{}\n", compile.value("id", ""),
                        compile.value("seconds", 0.0),
                        static_cast<double>(compile.value("peak_worker_bytes", std::int64_t{0})) / (1 << 30),
                        compile.value("reused", false) ? ", reused" : "");
  }
  if (plan.run.contains("planner_peak_bytes")) {
    text += fmt::format("  planner peak {:.2f} GiB\n",
                        static_cast<double>(plan.run["planner_peak_bytes"].get<std::int64_t>()) / (1 << 30));
  }
  return text;
}

}  // namespace

std::string placement_drawing(const plan::Plan& plan) {
  const auto& shape = plan.winner.mesh.shape;
  std::map<std::vector<std::int32_t>, std::string> cell;  // (z, y, x, core) -> logical coordinates
  std::size_t width = 1;
  for (std::size_t p = 0; p < plan.device_coords.size(); ++p) {
    std::vector<std::size_t> logical(shape.size());
    std::size_t rest = p;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const auto size = static_cast<std::size_t>(shape[axis]);
      logical[axis] = rest % size;
      rest /= size;
    }
    auto coordinates = plan.device_coords[p];
    coordinates.resize(4, 0);
    const std::string text = fmt::format("{}", fmt::join(logical, ","));
    width = std::max(width, text.size());
    cell[{coordinates[2], coordinates[3], coordinates[1], coordinates[0]}] = text;
  }
  std::string drawing;
  std::vector<std::int32_t> row;
  for (const auto& [at, text] : cell) {
    const std::vector<std::int32_t> its_row{at[0], at[1], at[2]};
    const bool new_layer = !row.empty() && (row[0] != at[0] || row[1] != at[1]);
    if (its_row != row) drawing += fmt::format("{}{}  ", row.empty() ? "" : "\n", new_layer ? "\n" : "");
    row = its_row;
    drawing += fmt::format("[{:^{}}] ", text, width);
  }
  return drawing + "\n";
}

std::string plan_text(const plan::Plan& plan, const TextOptions& options) {
  const Painter paint(options.colour);
  std::string text = paint.bold(headline(plan)) + "\n\n";
  text += paint.good(fmt::format("  plan            {}\n", plan.winner.id()));
  text += fmt::format("  device order    {}\n", plan.placement);
  text += step_line(plan) + "\n" + runner_up_line(plan) + "\n" + rules_line(plan) + "\n";
  text += fmt::format("  memory a chip   {:.2f} GiB by the compiler's own analysis\n",
                      static_cast<double>(plan.memory.total()) / (1 << 30));
  text += fmt::format("\nChips (x right, y down) with the mesh position {} each holds\n",
                      fmt::format("({})", fmt::join(plan.winner.mesh.axes, ",")));
  if (plan.device_coords.size() <= 64) text += placement_drawing(plan);
  text += baseline_table(plan) + candidate_table(plan, options, paint) + assumption_lines(plan);
  if (!plan.ties.empty()) {
    text += fmt::format(
        "\nTies: {} other choice(s) that the model, {:.0f} % off on communication, can't tell from it\n",
        plan.ties.size(), 100 * plan.evidence.value("stated_error", 0.0));
  }
  for (const auto& refusal : plan.refusals)
    text += fmt::format("\nRefused: {}: {}\n", refusal.candidate, refusal.reason);
  if (!plan.notes.empty()) text += "\n";
  for (const auto& note : plan.notes) text += fmt::format("Note: {}\n", note);
  return text + run_lines(plan, options.verbose);
}

}  // namespace aoizora::report
