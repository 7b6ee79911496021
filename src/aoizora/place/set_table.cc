#include "aoizora/place/set_table.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "aoizora/network/algorithm.h"

namespace aoizora::place {
namespace {

/// Orders of a group that may differ in cost.
class Orders {
 public:
  Orders(const GroupCosts& costs, const Structure& structure)
      : free_(costs.order_free()),
        rotates_(costs.rotates()),
        mirrors_(rotates_ && network::uses_both_directions(structure.prototype.hint)) {}

  double count(std::size_t n) const {
    if (free_) return 1;
    double orders = 1;
    for (std::size_t i = 2; i < (rotates_ ? n : n + 1); ++i) orders *= static_cast<double>(i);
    return mirrors_ && n > 2 ? orders / 2 : orders;
  }

  /// Calls `visit` on each; `chips` ascending.
  template <typename Visit>
  void each(std::vector<std::int32_t> chips, const Visit& visit) const {
    if (free_) return visit(chips);
    do {
      // A ring that sends both ways is its own mirror image.
      if (!mirrors_ || chips.size() < 3 || chips[1] < chips.back()) visit(chips);
    } while (std::next_permutation(chips.begin() + (rotates_ ? 1 : 0), chips.end()));
  }

 private:
  bool free_, rotates_, mirrors_;
};

/// The next set of the same size in lexicographic order; false after the last.
bool next_set(std::vector<std::int32_t>& chosen, std::size_t chips) {
  const std::size_t n = chosen.size();
  std::size_t i = n;
  while (i > 0 && chosen[i - 1] == static_cast<std::int32_t>(chips - n + i - 1)) --i;
  if (i == 0) return false;
  ++chosen[i - 1];
  for (std::size_t k = i; k < n; ++k) chosen[k] = chosen[k - 1] + 1;
  return true;
}

double sets_of(std::size_t chips, std::size_t n) {
  double sets = 1;
  for (std::size_t i = 0; i < n; ++i)
    sets = sets * static_cast<double>(chips - i) / static_cast<double>(i + 1);
  return sets;
}

void keep_less(GroupLeast& least, const GroupLeast& other, std::size_t means) {
  least.latency = std::min(least.latency, other.latency);
  least.alone = std::min(least.alone, other.alone);
  least.busiest = std::min(least.busiest, other.busiest);
  for (std::size_t i = 0; i < means; ++i) least.means[i] = std::min(least.means[i], other.means[i]);
}

}  // namespace

GroupLeast SetTable::nothing_yet() {
  GroupLeast least;
  least.means.fill(least.latency);
  return least;
}

LinkSets::LinkSets(const topology::Slice& slice) : cut_of_(slice.links().size(), 0) {
  sizes_.push_back(static_cast<double>(slice.links().size()));
  if (slice.is_graph()) return;
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(slice.dims().size()); ++d) {
    std::map<std::int32_t, std::set<Link>> cuts;  // by the lower coordinate; the last is the wrap
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(slice.chips()); ++c) {
      const std::int32_t at = slice.coordinates(Chip(c))[static_cast<std::size_t>(d)];
      const std::int32_t size = slice.dims()[static_cast<std::size_t>(d)];
      for (const bool positive : {true, false}) {
        const Link link = slice.neighbour_link(Chip(c), d, positive);
        if (link.valid()) cuts[positive ? at : (at + size - 1) % size].insert(link);
      }
    }
    for (const auto& [at, links] : cuts) {
      if (sizes_.size() == kMost) return;
      for (const Link link : links) cut_of_[link.at()] = static_cast<std::uint8_t>(sizes_.size());
      sizes_.push_back(static_cast<double>(links.size()));
    }
  }
}

SetTable::SetTable(const network::Model& model, const Structure& structure, const LinkSets& link_sets)
    : means_(link_sets.size()) {
  const std::size_t chips = model.slice().chips();
  if (chips > 64 || structure.groups.empty()) return;
  const std::size_t n = structure.groups.front().size();
  for (const auto& group : structure.groups) {
    if (group.size() != n) return;
  }
  GroupCosts costs(model, structure);
  const Orders orders(costs, structure);
  if (sets_of(chips, n) * orders.count(n) > kMostPriced) return;
  holding_.resize(chips);
  std::vector<double> total(model.capacities().size());
  const auto price = [&](const std::vector<std::int32_t>& order) {
    const GroupCost cost = costs.cost(costs.find(order));
    std::fill(total.begin(), total.end(), 0.0);
    for (const GroupPhase& phase : costs.phases(cost)) {
      for (const LinkLoad& on : costs.loads(phase)) total[static_cast<std::size_t>(on.link)] += on.load;
    }
    const double unit = costs.micros_per_unit();
    GroupLeast least;
    least.latency = cost.latency;
    least.alone = cost.alone * unit;
    least.busiest = *std::max_element(total.begin(), total.end()) * unit;
    least.means.fill(0);
    Order added{static_cast<std::uint32_t>(loads_.size()), 0};
    for (std::size_t l = 0; l < total.size(); ++l) {
      if (total[l] <= 0) continue;
      loads_.push_back({static_cast<std::int32_t>(l), total[l]});
      link_sets.add(static_cast<std::int32_t>(l), total[l] * unit, least.means);
    }
    added.loads = static_cast<std::uint32_t>(loads_.size()) - added.first_load;
    orders_.push_back(added);
    ++sets_.back().orders;
    keep_less(sets_.back().least, least, means_);
  };
  std::vector<std::int32_t> chosen(n);
  std::iota(chosen.begin(), chosen.end(), 0);
  do {
    const auto index = static_cast<std::uint32_t>(sets_.size());
    sets_.push_back({nothing_yet(), static_cast<std::uint32_t>(orders_.size()), 0});
    orders.each(chosen, price);
    ChipSet set = 0;
    for (const std::int32_t chip : chosen) set |= ChipSet{1} << chip;
    const auto list = [&](List& on) {
      on.chips.push_back(set);
      on.priced.push_back(index);
    };
    list(all_);
    for (const std::int32_t chip : chosen) list(holding_[static_cast<std::size_t>(chip)]);
  } while (next_set(chosen, chips));
}

/// Calls `visit` on each set that holds the members and otherwise free chips, until it returns false.
template <typename Visit>
void SetTable::each(ChipSet members, ChipSet free, const Visit& visit) const {
  const List& list = members == 0 ? all_ : holding_[static_cast<std::size_t>(std::countr_zero(members))];
  const ChipSet allowed = members | free;
  for (std::size_t i = 0; i < list.chips.size(); ++i) {
    if ((list.chips[i] & ~allowed) != 0 || (list.chips[i] & members) != members) continue;
    if (!visit(sets_[list.priced[i]])) return;
  }
}

GroupLeast SetTable::least(ChipSet members, ChipSet free) const {
  GroupLeast least = nothing_yet();
  each(members, free, [&](const Priced& priced) {
    keep_less(least, priced.least, means_);
    return true;
  });
  return least;
}

double SetTable::least_peak(ChipSet members, ChipSet free, const std::vector<double>& load,
                            double enough) const {
  double least = std::numeric_limits<double>::infinity();
  each(members, free, [&](const Priced& priced) {
    for (std::uint32_t o = priced.first_order; o < priced.first_order + priced.orders; ++o) {
      const Order& order = orders_[o];
      double peak = enough;
      for (std::uint32_t i = order.first_load; i < order.first_load + order.loads; ++i) {
        peak = std::max(peak, load[static_cast<std::size_t>(loads_[i].link)] + loads_[i].load);
        if (peak >= least) break;
      }
      least = std::min(least, peak);
    }
    return least > enough;
  });
  return least;
}

}  // namespace aoizora::place
