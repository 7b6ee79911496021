#include "aoizora/place/walk.h"

#include <algorithm>

namespace aoizora::place {

using Kind = WalkOp::Kind;

FloorWalk::FloorWalk(const Problem& problem)
    : problem_(&problem), begun_(problem.transfers().size()), dma_(problem.dmas()) {}

double FloorWalk::run(std::span<const double> alone, std::span<const double> slowest,
                      std::span<const double> links, std::span<const double> window) {
  alone_ = alone;
  slowest_ = slowest;
  links_ = links;
  window_ = window;
  std::fill(dma_.begin(), dma_.end(), 0.0);
  Front front = zero();
  run_range(0, problem_->walk().size(), front);
  return std::max(front.least, front.most);
}

FloorWalk::Front FloorWalk::zero() const {
  const std::size_t structures = problem_->structures().size();
  return {0, 0, std::vector<double>(structures, 0), std::vector<double>(structures, 0)};
}

void FloorWalk::shift(Front& front, double micros) {
  front.least += micros;
  front.most += micros;
  for (double& reached : front.reached) reached += micros;
}

void FloorWalk::keep_larger(Front& front, const Front& other, double shift_other) {
  front.least = std::max(front.least, other.least + shift_other);
  front.most = std::max(front.most, other.most + shift_other);
  for (std::size_t s = 0; s < front.reached.size(); ++s) {
    front.reached[s] = std::max(front.reached[s], other.reached[s] + shift_other);
    front.link_free[s] = std::max(front.link_free[s], other.link_free[s] + shift_other);
  }
}

void FloorWalk::done(std::size_t transfer, Front& front) {
  const auto y = static_cast<std::size_t>(problem_->transfers()[transfer].structure);
  const Structure& structure = problem_->structures()[y];
  const Front& at_start = begun_[transfer];
  const double alone = alone_[transfer];
  if (problem_->spans(y)) {
    // Its groups have members elsewhere, so only A holds: for each member that is in this component.
    if (structure.covers) {
      front.least = std::max(front.least, at_start.least + alone);
      front.most = std::max({front.most, front.least, at_start.most + alone});
    }
    return;
  }
  // B. Devices pass the waits in program order, so a group that was late for an earlier collective of the
  // structure is no earlier here.
  double all = std::max(front.link_free[y], at_start.least) + links_[transfer];
  front.link_free[y] = all;
  all = std::max(all, at_start.least + slowest_[transfer]);  // A of the slowest group, whichever that is
  if (!structure.covers || structure.permute) {
    // Where some devices take no part the one that is `most` may be one of them; a pair carries what holds
    // for its two ends, not for a group that others meet.
    front.most = std::max(front.most, all);
    if (structure.covers) {
      front.least = std::max(front.least, at_start.least + alone);
      front.most = std::max(front.most, at_start.most + alone);
    }
    return;
  }
  double least = at_start.least + alone;  // A
  const double some_group = std::max(at_start.most + alone, all);
  for (std::size_t x = 0; x < front.reached.size(); ++x) {
    if (problem_->couples(x, y)) least = std::max(least, at_start.reached[x] + alone);
  }
  if (structure.groups.size() == problem_->components()) least = std::max(least, some_group);
  front.least = std::max(front.least, least);
  front.reached[y] = std::max({front.reached[y], some_group, front.least});
  front.most = std::max({front.most, some_group, front.least});
}

void FloorWalk::run_loop(const WalkOp& op, std::size_t body, Front& front) {
  // Fronts shift with time (all rules are sums and maxima), so `k` iterations from a front whose least is x
  // end no earlier than x plus k iterations from zero. What B gives is lost where iterations are cut off
  // from each other; counting them in fours loses it once in four.
  constexpr std::int64_t kTogether = 4;
  run_range(body, op.body_end, front);
  if (op.trips == 1) return;
  std::vector<Front> from_zero;
  Front next = zero();
  for (std::int64_t i = 0; i < std::min(kTogether, op.trips - 1); ++i) {
    run_range(body, op.body_end, next);
    from_zero.push_back(next);
  }
  const std::int64_t chunks = (op.trips - 2) / kTogether;
  const std::int64_t rest = op.trips - 1 - chunks * kTogether;  // 1..kTogether
  const double base = front.least + (chunks > 0 ? static_cast<double>(chunks) * from_zero.back().least : 0);
  keep_larger(front, from_zero[static_cast<std::size_t>(rest - 1)], base);
}

void FloorWalk::run_range(std::size_t begin, std::size_t end, Front& front) {
  const WalkOp* const ops = problem_->walk().data();
  for (std::size_t i = begin; i < end; ++i) {
    const WalkOp& op = ops[i];
    const auto index = static_cast<std::size_t>(op.index);
    switch (op.kind) {
      case Kind::kCompute:
        shift(front, op.micros);
        break;
      case Kind::kStart:
        begun_[index] = front;
        break;
      case Kind::kDone:
        done(index, front);
        break;
      case Kind::kSync:
        begun_[index] = front;
        done(index, front);
        break;
      case Kind::kWindow: {
        const Front& first = begun_[static_cast<std::size_t>(op.since)];
        front.most = std::max(front.most, first.least + window_[index]);
        break;
      }
      case Kind::kLoop:
        run_loop(op, i + 1, front);
        i = op.body_end - 1;
        break;
      case Kind::kDmaStart:
        dma_[index] = front.least + op.micros;
        break;
      case Kind::kDmaDone:
        front.least = std::max(front.least, dma_[index]);
        front.most = std::max(front.most, front.least);
        dma_[index] = 0;
        break;
    }
  }
}

}  // namespace aoizora::place
