#include "aoizora/place/group_costs.h"

#include <algorithm>
#include <cmath>

#include "aoizora/base/error.h"
#include "aoizora/network/ring_order.h"

namespace aoizora::place {
namespace {

using network::Kind;

bool is_ring(Kind kind) {
  return kind == Kind::kAllGather || kind == Kind::kReduceScatter || kind == Kind::kAllReduce;
}

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t hash_of(std::span<const std::int32_t> chips, bool sorted) {
  std::uint64_t hash = sorted ? 0x9e3779b97f4a7c15ULL : 0x7f4a7c159e3779b9ULL;
  for (const std::int32_t chip : chips) hash = mix(hash + static_cast<std::uint64_t>(chip) + 1);
  return hash;
}

/// Groups up to a few hundred chips: insertion is the fastest sort for the usual 2 to 16.
void sort_small(std::vector<std::int32_t>& chips) {
  if (chips.size() > 24) {
    std::sort(chips.begin(), chips.end());
    return;
  }
  for (std::size_t i = 1; i < chips.size(); ++i) {
    const std::int32_t chip = chips[i];
    std::size_t k = i;
    for (; k > 0 && chips[k - 1] > chip; --k) chips[k] = chips[k - 1];
    chips[k] = chip;
  }
}

}  // namespace

GroupCosts::GroupCosts(const network::Model& model, const Structure& structure)
    : model_(&model),
      prototype_(structure.prototype),
      expander_(model.router(), model.latencies(), model.assumptions()),
      table_(1024),
      dense_(model.capacities().size()) {
  const network::Assumptions::Ring ring = model.assumptions().ring;
  if (prototype_.kind == Kind::kAllToAll && prototype_.ragged.empty()) {
    order_ = Order::kFree;
  } else if (is_ring(prototype_.kind)) {
    rotates_ = true;
    if (ring == network::Assumptions::Ring::kReordered) {
      order_ = Order::kFree;
    } else if (ring == network::Assumptions::Ring::kAsCompiled) {
      const auto& reorders = prototype_.hint.has_reordering_map;
      order_ = !reorders ? Order::kFreeOnGrids : *reorders ? Order::kFree : Order::kGiven;
    }
  }
  double largest = 1;
  for (const Bytes bytes : prototype_.ragged) largest = std::max(largest, static_cast<double>(bytes.value));
  const double slowest = *std::min_element(model.capacities().begin(), model.capacities().end());
  // A full share on the slowest link is 2^36 units: a relative step of 1.5e-11, and room for 2^17 shares on a
  // link (a torus of 65536 chips) before a double no longer holds every whole number.
  micros_per_unit_ = largest / slowest * 0x1.0p-36;
}

bool GroupCosts::trim(std::size_t limit) {
  if (loads_.size() + keys_.size() <= limit) return false;
  table_.assign(1024, {});
  used_ = 0;
  keys_.clear();
  costs_.clear();
  phases_.clear();
  loads_.clear();
  return true;
}

std::uint32_t GroupCosts::find(std::span<const std::int32_t> chips) {
  scratch_.assign(chips.begin(), chips.end());
  if (order_ != Order::kGiven) {
    sort_small(scratch_);
    const std::uint32_t index = look_up(scratch_, true);
    if (index != kAskAgain) return index;
    scratch_.assign(chips.begin(), chips.end());
  }
  if (rotates_)
    std::rotate(scratch_.begin(), std::min_element(scratch_.begin(), scratch_.end()), scratch_.end());
  return look_up(scratch_, false);
}

std::uint32_t GroupCosts::look_up(std::span<const std::int32_t> key, bool sorted) {
  const std::uint64_t hash = hash_of(key, sorted);
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash & mask;
  for (; table_[at].key != 0; at = (at + 1) & mask) {
    if (table_[at].hash != hash) continue;
    const std::int32_t* const known = keys_.data() + table_[at].key - 1;
    if (known[0] == static_cast<std::int32_t>(key.size()) && std::equal(key.begin(), key.end(), known + 1)) {
      return table_[at].cost;
    }
  }
  const std::vector<std::int32_t> copy(key.begin(), key.end());  // key lies in scratch_
  std::uint32_t cost = kAskAgain;
  std::vector<Chip> group;
  for (const std::int32_t chip : copy) group.emplace_back(chip);
  if (!sorted || order_ == Order::kFree || network::group_grid(model_->slice(), group))
    cost = expand(copy, hash);
  table_[at] = {hash, static_cast<std::uint32_t>(keys_.size() + 1), cost};
  keys_.push_back(static_cast<std::int32_t>(copy.size()));
  keys_.insert(keys_.end(), copy.begin(), copy.end());
  if (2 * ++used_ > table_.size()) grow();
  return cost;
}

void GroupCosts::grow() {
  std::vector<Slot> old(2 * table_.size());
  old.swap(table_);
  const std::size_t mask = table_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.key == 0) continue;
    std::size_t at = slot.hash & mask;
    while (table_[at].key != 0) at = (at + 1) & mask;
    table_[at] = slot;
  }
}

std::uint32_t GroupCosts::expand(std::span<const std::int32_t> chips, std::uint64_t hash) {
  std::vector<Chip> group;
  for (const std::int32_t chip : chips) group.emplace_back(chip);
  GroupCost cost{.hash = hash, .first_phase = static_cast<std::uint32_t>(phases_.size())};
  std::vector<topology::RoutedLink> route;
  const double launch = model_->profile().launch.value;
  for (const network::UnitPhase& phase : expander_.expand(prototype_, group).phases) {
    std::fill(dense_.begin(), dense_.end(), 0.0);
    for (const network::UnitFlow& flow : phase.flows) {
      route.clear();
      model_->router().append_route(flow.from, flow.to, route);
      for (const auto& [link, share] : route) {
        dense_[link.at()] += flow.share * share / model_->capacities()[link.at()];
      }
    }
    GroupPhase added{.latency = phase.steps * launch + phase.hop_latency,
                     .first_load = static_cast<std::uint32_t>(loads_.size())};
    double busiest = 0;
    for (std::size_t l = 0; l < dense_.size(); ++l) {
      if (dense_[l] <= 0) continue;
      // Rounded down: never above the model.
      const double load = std::floor(dense_[l] / micros_per_unit_);
      loads_.push_back({static_cast<std::int32_t>(l), load});
      ++added.loads;
      busiest = std::max(busiest, load);
      cost.volume += load;
    }
    phases_.push_back(added);
    ++cost.phases;
    cost.latency += added.latency;
    cost.alone += busiest;
  }
  costs_.push_back(cost);
  return static_cast<std::uint32_t>(costs_.size() - 1);
}

}  // namespace aoizora::place
