#pragma once

#include <span>
#include <vector>

#include "aoizora/place/problem.h"

/// The step time that given collective times lead to: one pass over the program, no network in it.
namespace aoizora::place {

/// Lock-step (N5): every device waits for the slowest group. `transfer[i]` is the time of transfer i alone,
/// `window[w]` the time its links need for all bytes of window w. All in µs. Not below compute.
class LockStepWalk {
 public:
  explicit LockStepWalk(const Problem& problem);
  double run(std::span<const double> transfer, std::span<const double> window);

 private:
  double run_range(std::size_t begin, std::size_t end, double now);

  const Problem* problem_;
  std::span<const double> transfer_;
  std::span<const double> window_;
  std::vector<double> begun_;  // per transfer
  std::vector<double> dma_;
};

/// Never above the event replay (N5), whose devices may drift apart: a group that is ahead escapes the
/// traffic of one that is behind, so the lock-step time is not a bound. What holds for every replay:
///   A  a group is done no earlier than its last member arrived plus the time of that group alone;
///   B  the last group is done no earlier than the first arrived plus the time of the busiest link for the
///      bytes of all groups.
/// A bounds each device. B bounds only some group; whose, is not known, until collectives whose groups meet
/// each other (Problem::couples) have carried it to every device. So the walk keeps three things: `least`
/// (every device is at least here), `most` (some device is), and per structure `reached` (all members of
/// some group are).
class FloorWalk {
 public:
  explicit FloorWalk(const Problem& problem);
  /// `alone[i]`: what every group of transfer i takes at least, alone. `links[i]`, `window[w]`: what the
  /// busiest link needs for the bytes of all its groups (no latency). µs.
  double run(std::span<const double> alone, std::span<const double> links, std::span<const double> window);

 private:
  struct Front {
    double least = 0;
    double most = 0;
    std::vector<double> reached;
  };
  void run_range(std::size_t begin, std::size_t end, Front& front);
  void run_loop(const WalkOp& op, std::size_t body, Front& front);
  void done(std::size_t transfer, Front& front);
  static void shift(Front& front, double micros);
  static void keep_larger(Front& front, const Front& other, double shift_other);

  const Problem* problem_;
  std::span<const double> alone_;
  std::span<const double> links_;
  std::span<const double> window_;
  std::vector<Front> begun_;
  std::vector<double> dma_;  // relative to `least` of the block: a copy depends on its own device only
};

}  // namespace aoizora::place
