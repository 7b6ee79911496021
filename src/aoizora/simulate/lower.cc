#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "aoizora/base/error.h"
#include "aoizora/ir/opcodes.h"
#include "aoizora/simulate/collectives.h"
#include "aoizora/simulate/op_cost.h"
#include "aoizora/simulate/workload.h"

/// Walks the scheduled entry computation and prices what it meets (N6, N7). Calls are inlined, loops kept.
namespace aoizora::simulate {
namespace {

using ir::ComputationId;
using ir::Instruction;
using ir::InstructionId;
using ir::InstructionRef;
using ir::Program;

constexpr std::size_t kListed = 20;  // unpriced ops named; more are counted

using Key = std::pair<std::int32_t, std::int32_t>;
Key key(InstructionRef ref) { return {ref.computation.value, ref.instruction.value}; }

class Lowering {
 public:
  Lowering(const Program& program, const network::Profile& profile) : program_(program), profile_(profile) {
    for (std::size_t i = 0; i < program.collectives.size(); ++i) {
      starts_[key(program.collectives[i].start)].push_back(i);
      dones_[key(program.collectives[i].done)].push_back(i);
    }
    collective_index_.assign(program.collectives.size(), -1);
  }

  Workload run() {
    check();
    out_.partitions = program_.devices();
    out_.blocks.push_back({std::string(program_.computation(program_.entry).name), {}});
    std::vector<Op> ops;
    walk(program_.entry, ops);
    out_.blocks[0].ops = std::move(ops);
    out_.compute = compute_of(out_.blocks[0].ops);
    finish_unpriced();
    return std::move(out_);
  }

 private:
  /// What a branch may have added, to take back when it is not the one that is kept.
  struct Mark {
    std::size_t blocks, collectives, warnings, unpriced_ops, unpriced_count;
    std::vector<std::int32_t> collective_index;
    Micros unpriced;
    std::int32_t dmas;
  };

  void check() {
    if (program_.format != Program::Format::kHlo) {
      throw UserError(program_.file, {1, 1},
                      "this is MLIR; a replay needs the compiled HLO text (`compiled.as_text()`)");
    }
    if (!program_.entry.valid()) {
      throw UserError(program_.file, {1, 1}, "no ENTRY computation: there is no step to replay");
    }
    if (!program_.scheduled) {
      warn(
          "not scheduled (no is_scheduled=true): ops run in the order of the text, which respects "
          "dependencies; overlap is what that order gives");
    }
    if (program_.truncated) {
      warn(fmt::format("the text ends in the middle, at {}:{}: the time covers what is there",
                       program_.truncated->line, program_.truncated->column));
    }
  }

  void warn(std::string text) { out_.warnings.push_back(std::move(text)); }
  std::string place(InstructionRef ref) const {
    const Position at = program_.instruction(ref).position;
    return fmt::format("{}:{}:{}", program_.file, at.line, at.column);
  }

  void walk(ComputationId id, std::vector<Op>& ops) {
    const std::size_t count = program_.computation(id).instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit({id, InstructionId(static_cast<std::int32_t>(i))}, ops);
  }

  void visit(InstructionRef ref, std::vector<Op>& ops) {
    const Instruction& instruction = program_.instruction(ref);
    if (instruction.opcode == "while") return loop(ref, ops);
    if (instruction.opcode == "conditional") return conditional(ref, ops);
    if (instruction.opcode == "call") {
      for (const ComputationId called : instruction.called) walk(called, ops);
      return;
    }
    const auto starts = starts_.find(key(ref));
    const auto dones = dones_.find(key(ref));
    // A fusion that starts a collective sends it off first; one that ends it uses or returns the result last.
    if (starts != starts_.end()) {
      for (const std::size_t c : starts->second) start(c, ref, ops);
    }
    compute(ref, ops);
    if (dones != dones_.end()) {
      for (const std::size_t c : dones->second) done(c, ref, ops);
    }
    if (starts == starts_.end() && dones == dones_.end()) dma(ref, ops);
  }

  void start(std::size_t c, InstructionRef ref, std::vector<Op>& ops) {
    const ir::Collective& collective = program_.collectives[c];
    if (!collective.async) return;  // its time is at `done`, which is the same op
    if (collective.host_transfer) return transfer(c, ref, ops);
    ops.push_back({Op::Kind::kStart, {}, index_of(c), 1, ref});
  }

  void done(std::size_t c, InstructionRef ref, std::vector<Op>& ops) {
    const ir::Collective& collective = program_.collectives[c];
    if (collective.host_transfer) {
      if (!collective.async) transfer(c, ref, ops);
      ops.push_back({Op::Kind::kDmaDone, {}, dma_of(collective.start), 1, ref});
      return;
    }
    const auto kind = collective.async ? Op::Kind::kDone : Op::Kind::kSync;
    ops.push_back({kind, {}, index_of(c), 1, ref});
  }

  /// Between slices, over the data-centre network: what is received takes its bytes over a host's share and
  /// an uplink and a downlink. Which chip of the other slice it comes from is not in the text, so nothing
  /// contends with it.
  void transfer(std::size_t c, InstructionRef ref, std::vector<Op>& ops) {
    const ir::Collective& collective = program_.collectives[c];
    const std::int64_t bytes = std::max(collective.operand_bytes, collective.result_bytes);
    const Micros time = profile_.dcn_latency * 2.0 +
                        (profile_.dcn_bandwidth.value > 0 ? Bytes(bytes) / profile_.dcn_bandwidth : Micros());
    ops.push_back({Op::Kind::kDmaStart, time, dma_of(ref), 1, ref});
    if (!std::exchange(warned_transfer_, true)) {
      warn(fmt::format("{}: transfers between slices through the host are timed alone, at {} GB/s a host",
                       place(ref), profile_.dcn_bandwidth.value / 1e3));
    }
  }

  void compute(InstructionRef ref, std::vector<Op>& ops) {
    const OpCost cost = price(program_, ref, profile_);
    if (cost.by == PricedBy::kGuess) {
      // Multiplied by the trips of the loops around it when it is known how often they run.
      const auto times = static_cast<double>(program_.computation(ref.computation).executions);
      out_.unpriced += cost.time * std::max(times, 1.0);
      ++unpriced_count_;
      if (out_.unpriced_ops.size() < kListed) {
        const Instruction& instruction = program_.instruction(ref);
        const auto target = instruction.attribute("custom_call_target");
        out_.unpriced_ops.push_back(fmt::format("{} ({}{}{}) at {}", instruction.name, instruction.opcode,
                                                target ? " " : "", target.value_or(""), place(ref)));
      }
    }
    if (cost.time.value > 0) ops.push_back({Op::Kind::kCompute, cost.time, -1, 1, ref});
  }

  /// Copies and prefetches beside compute: copy-start, slice-start, an async wrapper around plain ops.
  void dma(InstructionRef ref, std::vector<Op>& ops) {
    const Instruction& instruction = program_.instruction(ref);
    switch (ir::role_of(instruction.opcode)) {
      case ir::OpRole::kStart:
        ops.push_back(
            {Op::Kind::kDmaStart, dma_time(copied_bytes(instruction), profile_), dma_of(ref), 1, ref});
        return;
      case ir::OpRole::kDone:
        if (const auto begun = dma_begun(ref)) {
          ops.push_back({Op::Kind::kDmaDone, {}, dma_of(*begun), 1, ref});
        }
        return;
      case ir::OpRole::kUpdate:
      case ir::OpRole::kPlain:
        return;
    }
  }

  /// copy-start is (destination, source, context); the async sugar ((operands), result, context).
  static std::int64_t copied_bytes(const Instruction& instruction) {
    const ir::Shape& shape = *instruction.shape;
    if (!shape.is_tuple() || shape.tuple.empty()) return shape.byte_size();
    const bool sugar = shape.tuple[0].is_tuple() && shape.tuple.size() > 1;
    return shape.tuple[sugar ? 1 : 0].byte_size();
  }

  std::optional<InstructionRef> dma_begun(InstructionRef done) const {
    InstructionRef at = done;
    while (true) {
      const Instruction& instruction = program_.instruction(at);
      const ir::OpRole role = ir::role_of(instruction.opcode);
      if (at != done && role == ir::OpRole::kStart) return at;
      const bool passes = at == done || role == ir::OpRole::kUpdate || instruction.opcode == "bitcast" ||
                          instruction.opcode == "get-tuple-element" || instruction.opcode == "copy";
      if (!passes || instruction.operands.empty()) return std::nullopt;
      const InstructionId next = instruction.operands[0].instruction;
      if (!next.valid() || next >= at.instruction) return std::nullopt;  // not earlier: unscheduled text
      at.instruction = next;
    }
  }

  std::int32_t dma_of(InstructionRef start) {
    const auto [found, added] = dma_index_.try_emplace(key(start), dmas_);
    if (added) ++dmas_;
    return found->second;
  }

  std::int32_t index_of(std::size_t c) {
    std::int32_t& index = collective_index_[c];
    if (index < 0) {
      const ir::Collective& collective = program_.collectives[c];
      auto wanted = to_network(program_, collective);
      AOIZORA_CHECK(wanted.has_value(), "no groups: {}", program_.instruction(collective.at).name);
      check_devices(*wanted, collective);
      index = static_cast<std::int32_t>(out_.collectives.size());
      out_.collectives.push_back(std::move(*wanted));
      out_.collective_names.emplace_back(program_.instruction(collective.start).name);
    }
    return index;
  }

  void check_devices(network::Collective& wanted, const ir::Collective& collective) {
    if (wanted.groups.empty() && wanted.pairs.empty()) {  // empty: all devices in one group
      if (collective.kind == ir::CollectiveKind::kCollectivePermute) return;
      wanted.groups.emplace_back();
      for (std::int64_t p = 0; p < program_.devices(); ++p) {
        wanted.groups.back().push_back(Partition(static_cast<std::int32_t>(p)));
      }
    }
    if (!collective.ids_are_partitions && program_.num_partitions > 1) {
      throw UserError(program_.file, program_.instruction(collective.at).position,
                      "groups of replicas in a program of several partitions: replay it with replicas or "
                      "partitions only");
    }
  }

  void loop(InstructionRef ref, std::vector<Op>& ops) {
    const Instruction& instruction = program_.instruction(ref);
    if (instruction.called.size() != 2) return;
    std::int64_t trips = 1;
    if (const auto known = program_.trip_count(ref)) {
      trips = std::max<std::int64_t>(*known, 0);
    } else {
      warn(fmt::format("{}: the trip count of {} is not in the text; it counts once", place(ref),
                       instruction.name));
    }
    const auto index = static_cast<std::int32_t>(out_.blocks.size());
    out_.blocks.push_back({std::string(program_.computation(instruction.called[1]).name), {}});
    std::vector<Op> body;
    walk(instruction.called[0], body);  // the condition runs once more than the body: nanoseconds
    walk(instruction.called[1], body);
    out_.blocks[static_cast<std::size_t>(index)].ops = std::move(body);
    ops.push_back({Op::Kind::kLoop, {}, index, trips, ref});
  }

  void conditional(InstructionRef ref, std::vector<Op>& ops) {
    const Instruction& instruction = program_.instruction(ref);
    std::optional<ComputationId> dearest;
    double most = -1;
    for (const ComputationId branch : instruction.called) {
      const Mark before = mark();
      std::vector<Op> tried;
      walk(branch, tried);
      const double cost = rough_cost(tried);
      if (cost > most) {
        most = cost;
        dearest = branch;
      }
      restore(before);
    }
    if (!dearest) return;
    if (instruction.called.size() > 1) {
      warn(fmt::format("{}: of the branches of {} the dearest, {}, is taken each time", place(ref),
                       instruction.name, program_.computation(*dearest).name));
    }
    walk(*dearest, ops);
  }

  Mark mark() const {
    return {out_.blocks.size(), out_.collectives.size(), out_.warnings.size(), out_.unpriced_ops.size(),
            unpriced_count_,    collective_index_,       out_.unpriced,        dmas_};
  }

  void restore(const Mark& mark) {
    out_.blocks.resize(mark.blocks);
    out_.collectives.resize(mark.collectives);
    out_.collective_names.resize(mark.collectives);
    out_.warnings.resize(mark.warnings);
    unpriced_count_ = mark.unpriced_count;
    out_.unpriced_ops.resize(mark.unpriced_ops);
    collective_index_ = mark.collective_index;
    out_.unpriced = mark.unpriced;
    std::erase_if(dma_index_, [&](const auto& entry) { return entry.second >= mark.dmas; });
    dmas_ = mark.dmas;
  }

  /// Compute plus each collective's bytes over one link, loops multiplied out: to compare branches with.
  double rough_cost(const std::vector<Op>& ops) const {
    double cost = 0;
    for (const Op& op : ops) {
      cost += op.duration.value;
      if (op.kind == Op::Kind::kSync || op.kind == Op::Kind::kStart) {
        cost += (out_.collectives[static_cast<std::size_t>(op.index)].bytes / profile_.link_bandwidth).value;
      }
      if (op.kind == Op::Kind::kLoop) {
        cost +=
            static_cast<double>(op.trips) * rough_cost(out_.blocks[static_cast<std::size_t>(op.index)].ops);
      }
    }
    return cost;
  }

  Micros compute_of(const std::vector<Op>& ops) const {
    Micros sum;
    for (const Op& op : ops) {
      if (op.kind == Op::Kind::kCompute) sum += op.duration;
      if (op.kind == Op::Kind::kLoop) {
        sum +=
            static_cast<double>(op.trips) * compute_of(out_.blocks[static_cast<std::size_t>(op.index)].ops);
      }
    }
    return sum;
  }

  void finish_unpriced() {
    if (unpriced_count_ > kListed) {
      out_.unpriced_ops.push_back(fmt::format("and {} more", unpriced_count_ - kListed));
    }
    if (out_.unpriced.value > 0.01 * out_.compute.value) {
      warn(fmt::format("{:.1f} % of the compute time is a guess from bytes, because no rule prices: {}",
                       100 * (out_.unpriced / out_.compute), fmt::join(out_.unpriced_ops, ", ")));
    }
  }

  const Program& program_;
  const network::Profile& profile_;
  Workload out_;
  std::map<Key, std::vector<std::size_t>> starts_;
  std::map<Key, std::vector<std::size_t>> dones_;
  std::vector<std::int32_t> collective_index_;
  std::map<Key, std::int32_t> dma_index_;
  std::int32_t dmas_ = 0;
  std::size_t unpriced_count_ = 0;
  bool warned_transfer_ = false;
};

}  // namespace

Workload lower(const Program& program, const network::Profile& profile) {
  return Lowering(program, profile).run();
}

}  // namespace aoizora::simulate
