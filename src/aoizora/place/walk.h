#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "aoizora/place/problem.h"

/// The step time that given collective times lead to: one pass over the program, no network in it.
namespace aoizora::place {

/// Lock-step (N5): every device waits for the slowest group. `transfer[i]` is the time of transfer i alone;
/// `exact(w)` the time the links need for all bytes of window w, asked for only where `at_most[w]`, which is
/// cheap to know, would make a difference. All in µs. Not below compute.
class LockStepWalk {
 public:
  explicit LockStepWalk(const Problem& problem)
      : problem_(&problem), begun_(problem.transfers().size()), dma_(problem.dmas()) {}

  template <typename Exact>
  double run(std::span<const double> transfer, std::span<const double> at_most, const Exact& exact) {
    transfer_ = transfer;
    at_most_ = at_most;
    return run_range(0, problem_->walk().size(), 0, exact);
  }

 private:
  template <typename Exact>
  double run_range(std::size_t begin, std::size_t end, double now, const Exact& exact) {
    const WalkOp* const ops = problem_->walk().data();
    for (std::size_t i = begin; i < end; ++i) {
      const WalkOp& op = ops[i];
      const auto index = static_cast<std::size_t>(op.index);
      switch (op.kind) {
        case WalkOp::Kind::kCompute:
          now += op.micros;
          break;
        case WalkOp::Kind::kStart:
          begun_[index] = now;
          break;
        case WalkOp::Kind::kDone:
          now = std::max(now, begun_[index] + transfer_[index]);
          break;
        case WalkOp::Kind::kSync:
          begun_[index] = now;
          now += transfer_[index];
          break;
        case WalkOp::Kind::kWindow: {
          const double since = begun_[static_cast<std::size_t>(op.since)];
          if (since + at_most_[index] > now) now = std::max(now, since + exact(index));
          break;
        }
        case WalkOp::Kind::kLoop:
          // Times inside are relative to the body's begin; flights do not cross it (Problem).
          now += static_cast<double>(op.trips) * run_range(i + 1, op.body_end, 0, exact);
          i = op.body_end - 1;
          break;
        case WalkOp::Kind::kDmaStart:
          dma_[index] = now + op.micros;
          break;
        case WalkOp::Kind::kDmaDone:
          now = std::max(now, dma_[index]);
          break;
      }
    }
    return now;
  }

  const Problem* problem_;
  std::span<const double> transfer_;
  std::span<const double> at_most_;
  std::vector<double> begun_;  // per transfer
  std::vector<double> dma_;
};

/// Never above the event replay (N5), whose devices may drift apart: a group that is ahead escapes the
/// traffic of one that is behind, so the lock-step time is not a bound. What holds for every replay:
///   A  a group is done no earlier than its last member arrived plus the time of that group alone;
///   B  the last group is done no earlier than the first arrived plus the time of the busiest link for the
///      bytes of all groups; and the last of several collectives of one structure no earlier than the first
///      device came to the first of them plus the time of that link for the bytes of all.
/// A bounds each device. B bounds only some group; whose, is not known, until collectives whose groups meet
/// each other (Problem::couples) have carried it to every device. So the walk keeps three things: `least`
/// (every device is at least here), `most` (some device is), and per structure `reached` (all members of
/// some group are). All of it within one component of the program (Problem::components): what no collective
/// joins may drift apart without end. So the arguments of `run` are those of one component, and a placement's
/// floor is the largest of its components'.
class FloorWalk {
 public:
  explicit FloorWalk(const Problem& problem);
  /// `alone[i]`: what every group of transfer i takes at least, alone; `slowest[i]`: what some group does.
  /// `links[i]`, `window[w]`: what the busiest link needs for the bytes of all its groups (no latency). µs.
  double run(std::span<const double> alone, std::span<const double> slowest, std::span<const double> links,
             std::span<const double> window);

 private:
  struct Front {
    double least = 0;
    double most = 0;
    std::vector<double> reached;
    /// Per structure: when its busiest link is through with all that was sent so far, at the earliest (B over
    /// every run of collectives that ends here: the recursion of a queue).
    std::vector<double> link_free;
  };
  Front zero() const;
  void run_range(std::size_t begin, std::size_t end, Front& front);
  void run_loop(const WalkOp& op, std::size_t body, Front& front);
  void done(std::size_t transfer, Front& front);
  static void shift(Front& front, double micros);
  static void keep_larger(Front& front, const Front& other, double shift_other);

  const Problem* problem_;
  std::span<const double> alone_;
  std::span<const double> slowest_;
  std::span<const double> links_;
  std::span<const double> window_;
  std::vector<Front> begun_;
  std::vector<double> dma_;  // relative to `least` of the block: a copy depends on its own device only
};

}  // namespace aoizora::place
