#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/place/group_costs.h"
#include "aoizora/place/problem.h"

namespace aoizora::place {

/// A set of chips of a slice of at most 64.
using ChipSet = std::uint64_t;

/// Sets of links whose mean load is looked at: all links, and the cuts between successive coordinates of each
/// dimension (both directions). A link of the set is at least as busy as its mean, and means of groups add
/// up.
class LinkSets {
 public:
  static constexpr std::size_t kMost = 16;  // cuts beyond are left out

  explicit LinkSets(const topology::Slice& slice);
  std::size_t size() const { return sizes_.size(); }
  /// Adds the mean that a load on one link is in each set that holds the link.
  void add(std::int32_t link, double load, std::array<double, kMost>& means) const {
    means[0] += load / sizes_[0];
    if (const std::uint8_t cut = cut_of_[static_cast<std::size_t>(link)]; cut > 0) {
      means[cut] += load / sizes_[cut];
    }
  }

 private:
  std::vector<double> sizes_;
  std::vector<std::uint8_t> cut_of_;  // per link; 0: none
};

/// The least that a group can cost, each figure by itself. Times in µs; per byte where the bytes count.
struct GroupLeast {
  double latency = std::numeric_limits<double>::infinity();
  double alone = latency;                     // busiest link of each phase, summed
  double busiest = latency;                   // busiest link over all phases
  std::array<double, LinkSets::kMost> means;  // per set of links
};

/// What the groups of one structure cost at least when some of their chips are chosen and others are taken:
/// every set of chips of the groups' size is priced once, in each order that matters.
class SetTable {
 public:
  /// Stays empty where the groups differ in size, the slice has more than 64 chips, or there are more than
  /// `kMostPriced` sets and orders.
  SetTable(const network::Model& model, const Structure& structure, const LinkSets& link_sets);

  bool empty() const { return sets_.empty(); }
  /// Over the sets that hold all `members` and otherwise chips of `free` only. Infinite where there is none.
  GroupLeast least(ChipSet members, ChipSet free) const;
  /// The least that the busiest link can carry when one of these sets joins what is on the links already, in
  /// units of GroupCosts; `enough` when it is not above that.
  double least_peak(ChipSet members, ChipSet free, const std::vector<double>& load, double enough) const;

  static constexpr double kMostPriced = 20'000;

 private:
  struct Order {
    std::uint32_t first_load = 0;
    std::uint32_t loads = 0;
  };
  /// A set, the least over its orders, and these.
  struct Priced {
    GroupLeast least = nothing_yet();
    std::uint32_t first_order = 0;
    std::uint32_t orders = 0;
  };
  /// Sets to look through: chips beside each other, for the scan.
  struct List {
    std::vector<ChipSet> chips;
    std::vector<std::uint32_t> priced;
  };
  template <typename Visit>
  void each(ChipSet members, ChipSet free, const Visit& visit) const;
  static GroupLeast nothing_yet();

  std::size_t means_ = 0;
  std::vector<Priced> sets_;
  std::vector<Order> orders_;
  std::vector<LinkLoad> loads_;  // all phases
  List all_;
  std::vector<List> holding_;  // by chip
};

}  // namespace aoizora::place
