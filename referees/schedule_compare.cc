// Referee 5: our reading of a compiled program against the TPU compiler's own schedule of it.
//
//   schedule_compare FOLDER      (made by scripts/schedule_corpus.py: NAME.hlo.xz, NAME.slice,
//                                 NAME.schedule.txt.xz)
//
// For each scheduled computation three step times, all with communication priced as the compiler prices it
// (bytes over one constant, blind to the placement, and each collective alone):
//   A  our op order, starts, waits and loops, with the schedule's own op times: shows that we read overlap
//      rightly. Goal: within 5 % of its total_cycles.
//   B  the same with the op times we use, `estimated_cycles` of the final text and kernels at peak FLOP/s.
//      Differences are the compiler's two estimates against each other; the table per class of op says where.
//   C  our op times and our network model, row-major: by how much the placement-blind estimate is off.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/simulate/event_loop.h"
#include "aoizora/simulate/op_cost.h"
#include "aoizora/simulate/replay.h"
#include "schedule_text.h"

namespace aoizora::referees {
namespace {

namespace fs = std::filesystem;
using ir::Program;
using network::Kind;
using simulate::Op;
using simulate::Workload;

/// What the compiler takes for the full array (a permute: the buffer) over one v5e link, in GB/s, seen in its
/// schedules of v5e: an all-gather at 93.3, twice a one-way link of 46.65. Other kinds of chip by the ratio
/// of their link rates.
constexpr double kLinkGigabytes = 46.65;

double compiler_micros(const network::Collective& collective, double link_scale) {
  const double one_way = kLinkGigabytes * 1e3 * link_scale;
  const auto bytes = static_cast<double>(collective.bytes.value);
  switch (collective.kind) {
    case Kind::kAllReduce:
      return 2 * bytes / (2 * one_way);
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kBroadcast:
      return bytes / (2 * one_way);
    case Kind::kAllToAll:
    case Kind::kPermute:
      return bytes / one_way;
  }
  return 0;
}

std::string op_name_of(const Program& program, ir::InstructionRef ref) {
  const std::string_view metadata = program.instruction(ref).attribute("metadata").value_or("");
  constexpr std::string_view kKey = "op_name=\"";
  const std::size_t at = metadata.find(kKey);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = metadata.substr(at + kKey.size());
  return std::string(rest.substr(0, rest.find('"')));
}

enum class Class : std::uint8_t { kMatmul, kKernel, kOtherFusion, kOther };
constexpr const char* kClassNames[] = {"matmul fusions", "Pallas kernels", "other fusions", "other ops"};

Class class_of(const Program& program, ir::InstructionRef ref) {
  const ir::Instruction& op = program.instruction(ref);
  if (op.opcode == "custom-call") return Class::kKernel;
  if (op.opcode != "fusion") return Class::kOther;
  double flops = 0;
  for (const ir::ComputationId called : op.called) flops += simulate::matmul_flops(program, called);
  return flops > 0 ? Class::kMatmul : Class::kOtherFusion;
}

struct ClassSum {
  double ours = 0;
  double theirs = 0;
  int ops = 0;
};

/// The op of the schedule behind each of our compute ops. The compiler renames some ops after it has
/// scheduled them (fusions that a collective is split over, kernels): those are paired in order among the ops
/// with the same op_name, then among what is left over on both sides if that is equally many.
class Matching {
 public:
  Matching(const Program& program, const std::vector<Op>& ops, const ScheduleText& schedule) {
    std::map<std::string_view, std::size_t> by_name;
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) by_name[schedule.ops[i].name] = i;
    std::vector<std::size_t> ours;
    std::set<std::size_t> used;
    of_.assign(ops.size(), -1);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind != Op::Kind::kCompute && ops[i].kind != Op::Kind::kLoop) continue;
      const auto found = by_name.find(program.instruction(ops[i].source).name);
      if (found == by_name.end()) {
        ours.push_back(i);
      } else {
        of_[i] = static_cast<std::int64_t>(found->second);
        used.insert(found->second);
      }
    }
    std::map<std::string, std::vector<std::size_t>> left;
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
      const ScheduledOp& op = schedule.ops[i];
      if (used.contains(i) || (op.opcode != "fusion" && op.opcode != "custom-call")) continue;
      if (op.end - op.start > kFree) left[op.op_name].push_back(i);
    }
    for (const std::size_t i : ours) {
      const auto same = left.find(op_name_of(program, ops[i].source));
      if (same == left.end() || same->second.empty()) continue;
      of_[i] = static_cast<std::int64_t>(same->second.front());
      same->second.erase(same->second.begin());
    }
    for (const auto& [name, indices] : left) {
      for (const std::size_t i : indices) unmatched_ += schedule.ops[i].end - schedule.ops[i].start;
    }
  }

  /// Index into the schedule; -1: the op came later, or is one the schedule takes for free.
  std::int64_t of(std::size_t op) const { return of_[op]; }
  double unmatched_cycles() const { return unmatched_; }

  static constexpr double kFree = 1;  // cycles the schedule gives to what it takes for free

 private:
  std::vector<std::int64_t> of_;
  double unmatched_ = 0;
};

/// The ops as the compiler's schedule knows them: without copies, which it adds later.
std::vector<Op> without_copies(const std::vector<Op>& ops) {
  std::vector<Op> kept;
  std::copy_if(ops.begin(), ops.end(), std::back_inserter(kept),
               [](const Op& op) { return op.kind != Op::Kind::kDmaStart && op.kind != Op::Kind::kDmaDone; });
  return kept;
}

/// One block replayed with the collectives at the compiler's prices: pure latency, so that none shares a
/// link.
double replay(const Workload& whole, std::vector<Op> ops, const std::vector<double>& micros) {
  Workload work = whole;
  work.blocks[0] = {"block", std::move(ops)};
  for (simulate::Block& block : work.blocks) block.ops = without_copies(block.ops);
  std::vector<simulate::Unit> units;
  for (std::size_t c = 0; c < micros.size(); ++c) {
    network::Phase phase;
    phase.latency = Micros(micros[c]);
    phase.lead = phase.latency;
    units.push_back({static_cast<std::int32_t>(c), {0}, {{phase}, "as the compiler"}});
  }
  const std::vector<double> capacity = {1};
  return simulate::run_events(simulate::flatten(work), units, 1, micros.size(), capacity).devices[0].end;
}

struct Row {
  std::string name;
  double total = 0;  // the schedule's, µs
  double a = 0;
  double b = 0;
  double unmatched = 0;  // of the total
};

struct OpPair {
  std::string name;
  double ours = 0;
  double theirs = 0;
};

struct Sums {
  std::map<Class, ClassSum> classes;
  std::vector<OpPair> ops;
  std::vector<Row> rows;
};

Row compare(const Program& program, const Workload& work, std::size_t block, const ScheduleText& schedule,
            const std::vector<double>& micros, Sums& sums) {
  const std::vector<Op>& ops = work.blocks[block].ops;
  const Matching matching(program, ops, schedule);
  std::vector<Op> theirs;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Op op = ops[i];
    if (op.kind == Op::Kind::kCompute || op.kind == Op::Kind::kLoop) {
      if (matching.of(i) < 0) continue;
      const ScheduledOp& scheduled = schedule.ops[static_cast<std::size_t>(matching.of(i))];
      const double duration = (scheduled.end - scheduled.start) / schedule.cycles_per_micro;
      if (op.kind == Op::Kind::kCompute) {
        ClassSum& sum = sums.classes[class_of(program, op.source)];
        sum.ours += op.duration.value;
        sum.theirs += duration;
        ++sum.ops;
        const std::string& name = schedule.ops[static_cast<std::size_t>(matching.of(i))].name;
        sums.ops.push_back({fmt::format("{} {}", program.file, name), op.duration.value, duration});
      }
      op = {Op::Kind::kCompute, Micros(duration), -1, 1, op.source};
    }
    theirs.push_back(op);
  }
  Row row;
  row.total = schedule.total_cycles / schedule.cycles_per_micro;
  row.a = replay(work, theirs, micros);
  row.b = replay(work, ops, micros);
  row.unmatched = matching.unmatched_cycles() / schedule.total_cycles;
  return row;
}

struct Name {
  std::string name;
  std::string slice;
};

void run(const fs::path& folder, const Name& name, Sums& sums) {
  const topology::Slice slice = topology::Slice::parse(name.slice);
  network::Profile profile = network::Profile::builtin(slice.kind());
  const Program program = ir::read_hlo(read_text(folder / (name.name + ".hlo.xz")), name.name);
  profile.flash_efficiency = 1;  // as the compiler prices a kernel
  const Workload work = simulate::lower(program, profile);
  const double link_scale = profile.link_bandwidth / network::Profile::builtin("v5e").link_bandwidth;
  std::vector<double> micros;
  for (const auto& collective : work.collectives) micros.push_back(compiler_micros(collective, link_scale));
  const fs::path file = folder / (name.name + ".schedule.txt.xz");
  for (const ScheduleText& schedule : parse_schedules(read_text(file), file.string())) {
    const auto block = std::find_if(
        work.blocks.begin(), work.blocks.end(),
        [&](const simulate::Block& candidate) { return candidate.name == schedule.computation; });
    if (block == work.blocks.end()) {
      fmt::print("{}: {} is not a block of the final program\n", name.name, schedule.computation);
      continue;
    }
    Row row =
        compare(program, work, static_cast<std::size_t>(block - work.blocks.begin()), schedule, micros, sums);
    row.name = fmt::format("{} {}", name.name, block == work.blocks.begin() ? "entry" : "body");
    fmt::print("{:<44}{:>13.1f}{:>13.1f}{:>8.2f} %{:>13.1f}{:>8.1f} %{:>10.2f} %\n", row.name, row.total,
               row.a, 100 * (row.a / row.total - 1), row.b, 100 * (row.b / row.total - 1),
               100 * row.unmatched);
    sums.rows.push_back(row);
  }
}

/// C: our network model against the compiler's prices, per kind, once per execution.
void network_table(const fs::path& folder, const std::vector<Name>& names) {
  fmt::print(
      "\nC. Communication of the step, us: the compiler's price and our model's (row-major), each alone\n");
  fmt::print("{:<34}{:<20}{:>8}{:>14}{:>14}{:>8}\n", "program", "kind", "number", "compiler", "model",
             "ratio");
  for (const Name& name : names) {
    const topology::Slice slice = topology::Slice::parse(name.slice);
    const network::Profile profile = network::Profile::builtin(slice.kind());
    const Program program = ir::read_hlo(read_text(folder / (name.name + ".hlo.xz")), name.name);
    const Workload work = simulate::lower(program, profile);
    const network::Model model(slice, profile);
    const double link_scale = profile.link_bandwidth / network::Profile::builtin("v5e").link_bandwidth;
    const auto time = simulate::Replayer(work, model).run(topology::row_major(slice), simulate::Mode::kEvent);
    std::map<std::string, ClassSum> kinds;
    for (const simulate::CollectiveTime& c : time.collectives) {
      const auto& collective = work.collectives[static_cast<std::size_t>(c.collective)];
      ClassSum& sum = kinds[std::string(network::kind_name(collective.kind))];
      sum.ours += c.isolated.value * static_cast<double>(c.executions);
      sum.theirs += compiler_micros(collective, link_scale) * static_cast<double>(c.executions);
      ++sum.ops;
    }
    for (const auto& [kind, sum] : kinds) {
      fmt::print("{:<34}{:<20}{:>8}{:>14.1f}{:>14.1f}{:>8.2f}\n", name.name, kind, sum.ops, sum.theirs,
                 sum.ours, sum.ours / sum.theirs);
    }
  }
}

int compare_all(const fs::path& folder) {
  std::vector<Name> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".slice") continue;
    const std::string stem = entry.path().stem().string();
    if (fs::exists(folder / (stem + ".hlo.xz"))) names.push_back({stem, read_text(entry.path())});
  }
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.name < b.name; });
  if (names.empty()) user_error("{}: no NAME.hlo.xz with NAME.slice beside it", folder.string());
  fmt::print("{:<44}{:>13}{:>13}{:>10}{:>13}{:>10}{:>12}\n", "times in us", "schedule", "A", "error", "B",
             "error", "unmatched");
  Sums sums;
  for (const Name& name : names) run(folder, name, sums);
  double worst = 0;
  for (const Row& row : sums.rows) worst = std::max(worst, std::abs(row.a / row.total - 1));
  fmt::print("\nA: {} computations of {} programs, worst error {:.2f} % (goal 5 %)\n", sums.rows.size(),
             names.size(), 100 * worst);
  fmt::print(
      "\nB. Per class of op, us: estimated_cycles of the final text (kernels: declared FLOPs at peak) and "
      "the schedule's\n");
  for (const auto& [kind, sum] : sums.classes) {
    fmt::print("{:<20}{:>6} ops{:>14.1f}{:>14.1f}   ratio {:.3f}\n", kClassNames[static_cast<int>(kind)],
               sum.ops, sum.ours, sum.theirs, sum.ours / sum.theirs);
  }
  std::stable_sort(sums.ops.begin(), sums.ops.end(), [](const OpPair& a, const OpPair& b) {
    return std::abs(a.ours - a.theirs) > std::abs(b.ours - b.theirs);
  });
  fmt::print("the ops that differ most\n");
  for (std::size_t i = 0; i < std::min<std::size_t>(10, sums.ops.size()); ++i) {
    fmt::print("  {:<56}{:>12.1f}{:>12.1f}\n", sums.ops[i].name, sums.ops[i].ours, sums.ops[i].theirs);
  }
  network_table(folder, names);
  return worst <= 0.05 ? 0 : 1;
}

}  // namespace
}  // namespace aoizora::referees

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: schedule_compare FOLDER   (see scripts/schedule_corpus.py)\n");
    return 2;
  }
  try {
    return aoizora::referees::compare_all(argv[1]);
  } catch (const aoizora::UserError& error) {
    fmt::print(stderr, "schedule_compare: {}\n", error.what());
    return 2;
  }
}
