#include "aoizora/simulate/step_program.h"

#include <algorithm>

#include "aoizora/base/error.h"

namespace aoizora::simulate {
namespace {

constexpr std::size_t kMaxDepth = 64;  // loops nest a handful of levels; more means a block calls itself

class Flattener {
 public:
  Flattener(const Workload& workload, FlattenOptions options) : workload_(workload), options_(options) {
    program_.executions.assign(workload.collectives.size(), 0);
  }

  StepProgram run() {
    AOIZORA_CHECK(!workload_.blocks.empty(), "a workload without an entry");
    add_block(0, 1, 0);
    return std::move(program_);
  }

 private:
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

  void add_block(std::int32_t block, std::int64_t times, std::size_t depth) {
    AOIZORA_CHECK(block >= 0 && at(block) < workload_.blocks.size() && depth < kMaxDepth,
                  "block {} at depth {}", block, depth);
    for (const Op& op : workload_.blocks[at(block)].ops) add(op, times, depth);
  }

  void add(const Op& op, std::int64_t times, std::size_t depth) {
    switch (op.kind) {
      case Op::Kind::kCompute:
        return compute(op.duration.value, op.source);
      case Op::Kind::kStart:
        count(op.index, times);
        return push(Action::Kind::kStart, op);
      case Op::Kind::kDone:
        return push(Action::Kind::kDone, op);
      case Op::Kind::kSync:
        count(op.index, times);
        push(Action::Kind::kStart, op);
        return push(Action::Kind::kDone, op);
      case Op::Kind::kDmaStart:
        program_.dmas = std::max(program_.dmas, at(op.index) + 1);
        return push(Action::Kind::kDmaStart, op);
      case Op::Kind::kDmaDone:
        program_.dmas = std::max(program_.dmas, at(op.index) + 1);
        return push(Action::Kind::kDmaDone, op);
      case Op::Kind::kLoop:
        return loop(op, times, depth);
    }
  }

  void count(std::int32_t collective, std::int64_t times) {
    AOIZORA_CHECK(collective >= 0 && at(collective) < program_.executions.size(), "collective {} of {}",
                  collective, program_.executions.size());
    program_.executions[at(collective)] += times;
  }

  void push(Action::Kind kind, const Op& op) {
    program_.actions.push_back({kind, op.index, op.duration.value, op.trips, 0, op.source});
  }

  void compute(double micros, ir::InstructionRef source) {
    auto& actions = program_.actions;
    // Never across a loop's edge: its first action is a jump target.
    if (options_.merge && actions.size() > barrier_ && actions.back().kind == Action::Kind::kCompute) {
      actions.back().micros += micros;
    } else {
      actions.push_back({Action::Kind::kCompute, -1, micros, 1, 0, source});
    }
  }

  void loop(const Op& op, std::int64_t times, std::size_t depth) {
    if (op.trips <= 0) return;
    if (options_.merge) {
      if (const double once = only_compute(op.index, depth + 1); once >= 0) {
        return compute(once * static_cast<double>(op.trips), op.source);
      }
    }
    const auto index = static_cast<std::int32_t>(program_.loops.size());
    program_.loops.emplace_back();
    program_.actions.push_back({Action::Kind::kLoopBegin, index, 0, op.trips, 0, op.source});
    const std::size_t begin = barrier_ = program_.actions.size();
    add_block(op.index, times * op.trips, depth + 1);
    program_.actions.push_back({Action::Kind::kLoopEnd, index, 0, op.trips, begin, op.source});
    barrier_ = program_.actions.size();
    program_.loops[at(index)] = {begin, barrier_ - 1};
    program_.actions[begin - 1].target = barrier_;
  }

  /// Time of a block that computes and nothing else; -1 otherwise.
  double only_compute(std::int32_t block, std::size_t depth) const {
    AOIZORA_CHECK(block >= 0 && at(block) < workload_.blocks.size() && depth < kMaxDepth,
                  "block {} at depth {}", block, depth);
    double sum = 0;
    for (const Op& op : workload_.blocks[at(block)].ops) {
      if (op.kind == Op::Kind::kCompute) {
        sum += op.duration.value;
      } else if (op.kind == Op::Kind::kLoop) {
        const double inner = only_compute(op.index, depth + 1);
        if (inner < 0) return -1;
        sum += inner * static_cast<double>(std::max<std::int64_t>(op.trips, 0));
      } else {
        return -1;
      }
    }
    return sum;
  }

  const Workload& workload_;
  FlattenOptions options_;
  StepProgram program_;
  std::size_t barrier_ = 0;
};

}  // namespace

StepProgram flatten(const Workload& workload, FlattenOptions options) {
  return Flattener(workload, options).run();
}

}  // namespace aoizora::simulate
