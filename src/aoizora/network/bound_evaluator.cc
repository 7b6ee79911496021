#include "aoizora/network/bound_evaluator.h"

#include <algorithm>

#include "aoizora/base/error.h"
#include "aoizora/network/model_impl.h"

namespace aoizora::network {
namespace {

/// Group vectors kept before all are forgotten: about 1 GB at 40 links each, and far above what a search on
/// 16 chips can ask for.
constexpr std::size_t kEntries = 1U << 20;

std::uint64_t hash_of(std::span<const std::int32_t> chips) {
  std::uint64_t hash = std::uint64_t{0x9e3779b97f4a7c15} ^ chips.size();
  for (const std::int32_t chip : chips) {
    hash = (hash ^ static_cast<std::uint64_t>(chip)) * std::uint64_t{0xbf58476d1ce4e5b9};
    hash ^= hash >> 29;
  }
  return hash;
}

std::vector<std::vector<Partition>> groups_of(const Collective& collective) {
  std::vector<std::vector<Partition>> groups = collective.groups;
  for (const auto& [source, target] : collective.pairs) {
    groups.push_back({source, target});
  }
  return groups;
}

}  // namespace

BoundEvaluator::BoundEvaluator(const Model& model, std::span<const Collective> collectives) : model_(model) {
  for (const Collective& collective : collectives) {
    const double bytes = collective.ragged.empty() ? static_cast<double>(collective.bytes.value) : 1.0;
    members_.push_back({structure_index(collective), bytes});
  }
  answers_.resize(structures_.size());
}

BoundEvaluator::Same BoundEvaluator::sameness(const Collective& collective) const {
  switch (collective.kind) {
    case Kind::kAllToAll:
      return collective.ragged.empty() ? Same::kSet : Same::kOrder;
    case Kind::kPermute:
    case Kind::kBroadcast:
      return Same::kOrder;
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllReduce:
      break;
  }
  const Assumptions::Ring ring = model_.assumptions().ring;
  const std::optional<bool> compiled = collective.hint.has_reordering_map;
  if (ring == Assumptions::Ring::kReordered || (ring == Assumptions::Ring::kAsCompiled && compiled == true)) {
    return Same::kSet;
  }
  return uses_both_directions(collective.hint) ? Same::kRotationAndReversal : Same::kRotation;
}

void BoundEvaluator::canonicalise(Same same, std::vector<std::int32_t>& chips) {
  if (same == Same::kSet) {
    std::sort(chips.begin(), chips.end());
  } else if (same != Same::kOrder && chips.size() > 1) {
    std::rotate(chips.begin(), std::min_element(chips.begin(), chips.end()), chips.end());
    if (same == Same::kRotationAndReversal && chips.back() < chips[1]) {
      std::reverse(chips.begin() + 1, chips.end());
    }
  }
}

std::size_t BoundEvaluator::algorithm_index(const Collective& collective) {
  for (std::size_t i = 0; i < algorithms_.size(); ++i) {
    const Collective& known = algorithms_[i].prototype;
    if (known.kind == collective.kind && known.hint == collective.hint && known.ragged == collective.ragged) {
      return i;
    }
  }
  Algorithm added;
  added.prototype.kind = collective.kind;
  added.prototype.hint = collective.hint;
  added.prototype.ragged = collective.ragged;
  added.same = sameness(collective);
  added.table.assign(1024, -1);
  algorithms_.push_back(std::move(added));
  return algorithms_.size() - 1;
}

std::size_t BoundEvaluator::structure_index(const Collective& collective) {
  Structure added;
  added.algorithm = algorithm_index(collective);
  added.groups = groups_of(collective);
  for (std::size_t i = 0; i < structures_.size(); ++i) {
    if (structures_[i].algorithm == added.algorithm && structures_[i].groups == added.groups) {
      return i;
    }
  }
  for (const std::vector<Partition>& group : added.groups) {
    for (const Partition partition : group) {
      added.partitions.push_back(partition.value);
    }
    added.group_ends.push_back(static_cast<std::uint32_t>(added.partitions.size()));
  }
  structures_.push_back(std::move(added));
  return structures_.size() - 1;
}

void BoundEvaluator::forget() {
  for (Algorithm& algorithm : algorithms_) {
    algorithm.table.assign(1024, -1);
    algorithm.entries.clear();
    algorithm.chips_.clear();
  }
  phases_.clear();
  loads_.clear();
  entries_ = 0;
}

std::uint32_t BoundEvaluator::expand(Algorithm& algorithm, std::span<const std::int32_t> chips,
                                     std::uint64_t hash) {
  std::vector<Chip> group;
  for (const std::int32_t chip : chips) {
    group.push_back(Chip(chip));
  }
  Algorithm::Entry entry{hash, static_cast<std::uint32_t>(algorithm.chips_.size()),
                         static_cast<std::uint32_t>(chips.size()), static_cast<std::uint32_t>(phases_.size()),
                         0};
  algorithm.chips_.insert(algorithm.chips_.end(), chips.begin(), chips.end());
  const Model::Impl& impl = *model_.impl_;
  std::vector<topology::RoutedLink> route;
  std::vector<double> dense(impl.capacities.size());
  for (const UnitPhase& phase : impl.expander.expand(algorithm.prototype, group).phases) {
    std::fill(dense.begin(), dense.end(), 0);
    for (const UnitFlow& flow : phase.flows) {
      route.clear();
      impl.router.append_route(flow.from, flow.to, route);
      for (const auto& [link, share] : route) {
        dense[link.at()] += flow.share * share / impl.capacities[link.at()];
      }
    }
    PhaseLoads loads{impl.latency(phase), static_cast<std::uint32_t>(loads_.size()), 0};
    for (std::size_t l = 0; l < dense.size(); ++l) {
      if (dense[l] > 0) {
        loads_.push_back({static_cast<std::int32_t>(l), dense[l]});
        ++loads.count;
      }
    }
    phases_.push_back(loads);
    ++entry.phases;
  }
  const std::size_t wanted = entry.phases * dense.size();
  if (dense_.size() < wanted) {
    dense_.resize(wanted, 0);
    phase_max_.resize(entry.phases, 0);
    phase_latency_.resize(entry.phases, 0);
  }
  algorithm.entries.push_back(entry);
  ++entries_;
  return static_cast<std::uint32_t>(algorithm.entries.size() - 1);
}

std::uint32_t BoundEvaluator::find_or_expand(Algorithm& algorithm, std::span<const std::int32_t> chips) {
  const std::uint64_t hash = hash_of(chips);
  std::size_t mask = algorithm.table.size() - 1;
  std::size_t slot = hash & mask;
  for (; algorithm.table[slot] >= 0; slot = (slot + 1) & mask) {
    const Algorithm::Entry& entry = algorithm.entries[static_cast<std::size_t>(algorithm.table[slot])];
    if (entry.hash == hash && entry.count == chips.size() &&
        std::equal(chips.begin(), chips.end(), algorithm.chips_.begin() + entry.chips)) {
      return static_cast<std::uint32_t>(algorithm.table[slot]);
    }
  }
  const std::uint32_t added = expand(algorithm, chips, hash);
  algorithm.table[slot] = static_cast<std::int32_t>(added);
  if (2 * algorithm.entries.size() > algorithm.table.size()) {
    algorithm.table.assign(2 * algorithm.table.size(), -1);
    mask = algorithm.table.size() - 1;
    for (std::size_t i = 0; i < algorithm.entries.size(); ++i) {
      std::size_t free = algorithm.entries[i].hash & mask;
      while (algorithm.table[free] >= 0) {
        free = (free + 1) & mask;
      }
      algorithm.table[free] = static_cast<std::int32_t>(i);
    }
  }
  return added;
}

BoundEvaluator::Answer BoundEvaluator::evaluate(const Structure& structure,
                                                const topology::Placement& placement) {
  if (entries_ > kEntries) {
    forget();
  }
  Algorithm& algorithm = algorithms_[structure.algorithm];
  const std::size_t links = model_.impl_->capacities.size();
  std::size_t used = 0;
  std::uint32_t first = 0;
  for (const std::uint32_t end : structure.group_ends) {
    scratch_.clear();
    for (std::uint32_t i = first; i < end; ++i) {
      const auto partition = static_cast<std::size_t>(structure.partitions[i]);
      if (partition >= placement.size()) [[unlikely]] {
        std::fill(dense_.begin(), dense_.end(), 0);
        user_error("a group names partition {}, but the placement has {} positions", partition,
                   placement.size());
      }
      scratch_.push_back(placement[partition].value);
    }
    first = end;
    canonicalise(algorithm.same, scratch_);
    const std::uint32_t index = find_or_expand(algorithm, scratch_);
    const Algorithm::Entry& entry = algorithm.entries[index];
    for (; used < entry.phases; ++used) {
      phase_max_[used] = 0;
      phase_latency_[used] = 0;
    }
    for (std::uint32_t p = 0; p < entry.phases; ++p) {
      const PhaseLoads& phase = phases_[entry.first_phase + p];
      phase_latency_[p] = std::max(phase_latency_[p], phase.latency);
      double* const dense = dense_.data() + p * links;
      double largest = phase_max_[p];
      for (std::uint32_t i = phase.first; i < phase.first + phase.count; ++i) {
        // Loads only grow, so the largest that was ever seen is the largest at the end.
        largest = std::max(largest, dense[loads_[i].link] += loads_[i].micros_per_byte);
      }
      phase_max_[p] = largest;
    }
  }
  Answer answer;
  for (std::size_t p = 0; p < used; ++p) {
    answer.latency += phase_latency_[p];
    answer.micros_per_byte += phase_max_[p];
  }
  std::fill_n(dense_.begin(), used * links, 0.0);
  return answer;
}

void BoundEvaluator::bounds(const topology::Placement& placement, std::span<double> micros) {
  AOIZORA_CHECK(micros.size() == members_.size(), "{} results for {} collectives", micros.size(),
                members_.size());
  for (std::size_t s = 0; s < structures_.size(); ++s) {
    answers_[s] = evaluate(structures_[s], placement);
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Answer& answer = answers_[members_[i].structure];
    micros[i] = answer.latency + members_[i].bytes * answer.micros_per_byte;
  }
}

Micros BoundEvaluator::bound(std::size_t collective, const topology::Placement& placement) {
  const Member& member = members_.at(collective);
  const Answer answer = evaluate(structures_[member.structure], placement);
  return Micros(answer.latency + member.bytes * answer.micros_per_byte);
}

}  // namespace aoizora::network
