#include "aoizora/place/problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "aoizora/base/error.h"

namespace aoizora::place {
namespace {

using simulate::Op;
using simulate::Workload;

/// Loops nest a handful of levels; more means that a block calls itself.
constexpr std::size_t kMaxDepth = 64;

std::vector<std::vector<std::int32_t>> groups_of(const network::Collective& collective) {
  std::vector<std::vector<std::int32_t>> groups;
  for (const auto& [source, target] : collective.pairs) {
    if (source != target)
      groups.push_back({source.value, target.value});  // to itself: nothing crosses a link
  }
  for (const std::vector<Partition>& group : collective.groups) {
    if (group.size() < 2) continue;
    groups.emplace_back();
    for (const Partition p : group) groups.back().push_back(p.value);
  }
  return groups;
}

void check_groups(const Structure& structure, std::size_t positions) {
  for (const auto& group : structure.groups) {
    std::set<std::int32_t> seen;
    for (const std::int32_t p : group) {
      if (p < 0 || static_cast<std::size_t>(p) >= positions) {
        user_error("a {} names partition {}, but the program has {}",
                   network::kind_name(structure.prototype.kind), p, positions);
      }
      if (!seen.insert(p).second) {
        user_error("a {} names partition {} twice in one group", network::kind_name(structure.prototype.kind),
                   p);
      }
    }
  }
}

/// Where each collective of a block begins and is waited for; only pairs within the block in this order.
struct Flight {
  std::size_t start = 0;
  std::size_t done = 0;
  std::int32_t transfer = -1;
};

std::vector<Flight> flights_of(const std::vector<Op>& ops) {
  std::vector<Flight> flights;
  std::map<std::int32_t, std::size_t> open;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == Op::Kind::kStart) open[ops[i].index] = i;
    if (ops[i].kind == Op::Kind::kSync) flights.push_back({i, i, ops[i].index});
    if (ops[i].kind == Op::Kind::kDone) {
      const auto found = open.find(ops[i].index);
      if (found == open.end()) continue;  // begun in another block: not waited for here (a lower bound)
      flights.push_back({found->second, i, ops[i].index});
      open.erase(found);
    }
  }
  return flights;  // in order of `done`
}

/// Copies waited for in the block that begins them: (start, done) op positions of each.
std::set<std::size_t> matched_copies(const std::vector<Op>& ops) {
  std::set<std::size_t> matched;
  std::map<std::int32_t, std::size_t> open;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == Op::Kind::kDmaStart) open[ops[i].index] = i;
    if (ops[i].kind != Op::Kind::kDmaDone) continue;
    const auto found = open.find(ops[i].index);
    if (found == open.end()) continue;
    matched.insert({found->second, i});
    open.erase(found);
  }
  return matched;
}

}  // namespace

Problem::Problem(const Workload& workload, const network::Model& model)
    : model_(&model),
      positions_(static_cast<std::size_t>(workload.partitions)),
      compute_(workload.compute.value) {
  AOIZORA_CHECK(!workload.blocks.empty(), "a workload without an entry");
  for (const network::Collective& collective : workload.collectives) {
    double bytes = static_cast<double>(collective.bytes.value);
    if (!collective.ragged.empty()) bytes = 1;  // the sizes are in the structure
    transfers_.push_back({structure_of(collective), bytes});
  }
  add_block(workload, 0, 0);
  add_volumes(workload, 0, 1, 0);
  find_components();
  find_couplings();
}

std::int32_t Problem::structure_of(const network::Collective& collective) {
  Structure added;
  added.prototype = collective;
  added.prototype.groups.clear();
  added.prototype.pairs.clear();
  added.prototype.bytes = Bytes(1);
  added.groups = groups_of(collective);
  added.permute = collective.kind == network::Kind::kPermute;
  for (std::size_t s = 0; s < structures_.size(); ++s) {
    const Structure& known = structures_[s];
    if (known.prototype.kind == collective.kind && known.prototype.hint == collective.hint &&
        known.prototype.ragged == collective.ragged && known.groups == added.groups) {
      return static_cast<std::int32_t>(s);
    }
  }
  check_groups(added, positions_);
  added.groups_of.resize(positions_);
  for (std::size_t g = 0; g < added.groups.size(); ++g) {
    for (const std::int32_t p : added.groups[g]) {
      added.groups_of[static_cast<std::size_t>(p)].push_back(static_cast<std::int32_t>(g));
    }
  }
  added.covers = std::all_of(added.groups_of.begin(), added.groups_of.end(),
                             [&](const auto& in) { return added.permute ? !in.empty() : in.size() == 1; });
  structures_.push_back(std::move(added));
  return static_cast<std::int32_t>(structures_.size() - 1);
}

void Problem::add_block(const Workload& workload, std::size_t block, std::size_t depth) {
  AOIZORA_CHECK(block < workload.blocks.size() && depth < kMaxDepth, "block {} at depth {}", block, depth);
  const std::vector<Op>& ops = workload.blocks[block].ops;
  const std::vector<Flight> flights = flights_of(ops);
  const std::set<std::size_t> copies = matched_copies(ops);
  std::map<std::size_t, Flight> by_done;
  std::set<std::size_t> starts;
  for (const Flight& flight : flights) {
    by_done[flight.done] = flight;
    starts.insert(flight.start);
  }
  // A flight's window: it and those that overlap it and were waited for before it.
  const auto add_window = [&](const Flight& last) {
    Window window;
    Flight first = last;
    for (const Flight& other : flights) {
      if (other.done > last.done || (other.done == last.done && other.start != last.start)) continue;
      if (other.done < last.start) continue;  // over before the last one began
      window.transfers.push_back(other.transfer);
      if (other.start < first.start) first = other;
    }
    if (window.transfers.size() < 2) return;
    windows_.push_back(std::move(window));
    walk_.push_back({.kind = WalkOp::Kind::kWindow,
                     .index = static_cast<std::int32_t>(windows_.size() - 1),
                     .since = first.transfer});
  };
  double compute = 0;
  const auto flush = [&] {
    if (compute > 0) walk_.push_back({.kind = WalkOp::Kind::kCompute, .micros = compute});
    compute = 0;
  };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    switch (op.kind) {
      case Op::Kind::kCompute:
        compute += op.duration.value;
        break;
      case Op::Kind::kStart:
      case Op::Kind::kSync:
        flush();
        if (!starts.contains(i)) break;
        walk_.push_back({.kind = op.kind == Op::Kind::kStart ? WalkOp::Kind::kStart : WalkOp::Kind::kSync,
                         .index = op.index});
        if (op.kind == Op::Kind::kSync) add_window(by_done.at(i));
        break;
      case Op::Kind::kDone:
        flush();
        if (!by_done.contains(i)) break;
        walk_.push_back({.kind = WalkOp::Kind::kDone, .index = op.index});
        add_window(by_done.at(i));
        break;
      case Op::Kind::kLoop: {
        flush();
        if (op.trips <= 0) break;
        const std::size_t at = walk_.size();
        walk_.push_back({.kind = WalkOp::Kind::kLoop, .trips = op.trips});
        add_block(workload, static_cast<std::size_t>(op.index), depth + 1);
        walk_[at].body_end = walk_.size();
        break;
      }
      case Op::Kind::kDmaStart:
      case Op::Kind::kDmaDone:
        if (!copies.contains(i)) break;
        flush();
        dmas_ = std::max(dmas_, static_cast<std::size_t>(op.index) + 1);
        walk_.push_back(
            {.kind = op.kind == Op::Kind::kDmaStart ? WalkOp::Kind::kDmaStart : WalkOp::Kind::kDmaDone,
             .micros = op.duration.value,
             .index = op.index});
        break;
    }
  }
  flush();
}

void Problem::add_volumes(const Workload& workload, std::size_t block, double times, std::size_t depth) {
  AOIZORA_CHECK(depth < kMaxDepth, "block {} at depth {}", block, depth);
  for (const Op& op : workload.blocks[block].ops) {
    if (op.kind == Op::Kind::kStart || op.kind == Op::Kind::kSync) {
      const Transfer& transfer = transfers_[static_cast<std::size_t>(op.index)];
      structures_[static_cast<std::size_t>(transfer.structure)].volume += times * transfer.bytes;
    } else if (op.kind == Op::Kind::kLoop) {
      add_volumes(workload, static_cast<std::size_t>(op.index), times * static_cast<double>(op.trips),
                  depth + 1);
    }
  }
}

/// Structures that join partitions to components: those of the loops; all, where the rest is not negligible.
std::vector<bool> Problem::joining() const {
  std::vector<bool> in_loops(structures_.size(), false);
  std::size_t end = 0;  // of the outermost loop we are in
  for (std::size_t i = 0; i < walk_.size(); ++i) {
    const WalkOp& op = walk_[i];
    if (op.kind == WalkOp::Kind::kLoop && op.trips > 1) end = std::max(end, op.body_end);
    if (i < end && (op.kind == WalkOp::Kind::kStart || op.kind == WalkOp::Kind::kSync)) {
      in_loops[static_cast<std::size_t>(transfers_[static_cast<std::size_t>(op.index)].structure)] = true;
    }
  }
  double inside = 0, outside = 0;
  for (std::size_t s = 0; s < structures_.size(); ++s) {
    (in_loops[s] ? inside : outside) += structures_[s].volume;
  }
  if (outside > 0.01 * inside) in_loops.assign(structures_.size(), true);
  return in_loops;
}

void Problem::find_components() {
  const std::vector<bool> joins = joining();
  component_of_.assign(positions_, -1);
  for (std::size_t first = 0; first < positions_; ++first) {
    if (component_of_[first] >= 0) continue;
    std::vector<std::size_t> open = {first};
    component_of_[first] = static_cast<std::int32_t>(components_);
    while (!open.empty()) {
      const std::size_t p = open.back();
      open.pop_back();
      for (std::size_t s = 0; s < structures_.size(); ++s) {
        const Structure& structure = structures_[s];
        if (!joins[s]) continue;
        for (const std::int32_t g : structure.groups_of[p]) {
          for (const std::int32_t q : structure.groups[static_cast<std::size_t>(g)]) {
            std::int32_t& of_q = component_of_[static_cast<std::size_t>(q)];
            if (of_q >= 0) continue;
            of_q = static_cast<std::int32_t>(components_);
            open.push_back(static_cast<std::size_t>(q));
          }
        }
      }
    }
    ++components_;
  }
  for (const Structure& structure : structures_) {
    spans_.push_back(std::any_of(structure.groups.begin(), structure.groups.end(), [&](const auto& group) {
      return std::any_of(group.begin(), group.end(), [&](std::int32_t p) {
        return component_of_[static_cast<std::size_t>(p)] !=
               component_of_[static_cast<std::size_t>(group.front())];
      });
    }));
  }
}

void Problem::find_couplings() {
  const std::size_t n = structures_.size();
  couples_.assign(n * n, false);
  // A permute's pairs do not make its members wait for each other, so it couples nothing.
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      const Structure& first = structures_[a];
      const Structure& second = structures_[b];
      if (!first.covers || !second.covers || first.permute || second.permute) continue;
      if (spans_[a] || spans_[b]) continue;
      std::set<std::pair<std::int32_t, std::int32_t>> met;
      for (std::size_t p = 0; p < positions_; ++p) met.emplace(first.groups_of[p][0], second.groups_of[p][0]);
      std::vector<std::size_t> first_in(components_, 0), second_in(components_, 0);
      for (std::size_t g = 0; g < first.groups.size(); ++g) ++first_in[component_of_group(a, g)];
      for (std::size_t g = 0; g < second.groups.size(); ++g) ++second_in[component_of_group(b, g)];
      std::size_t all = 0;
      for (std::size_t c = 0; c < components_; ++c) all += first_in[c] * second_in[c];
      couples_[a * n + b] = met.size() == all;
    }
  }
}

}  // namespace aoizora::place
