#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "aoizora/network/algorithm.h"
#include "aoizora/place/problem.h"

namespace aoizora::place {

/// Unit load of a link: a whole number, kept in a double, so that adding and taking away leaves no trace (a
/// search may swap a million times and still have the bits of a fresh sum) and maxima run in vector
/// registers. Micros = load * GroupCosts::micros_per_unit * bytes.
struct LinkLoad {
  std::int32_t link = 0;
  double load = 0;
};

/// What one group of a structure costs on given chips (N3).
struct GroupCost {
  std::uint64_t hash = 0;  // of the chips, the same in every table
  std::uint32_t first_phase = 0;
  std::uint32_t phases = 0;
  double latency = 0;  // µs, all phases
  double alone = 0;    // busiest link of each phase, summed: the group by itself
  double volume = 0;   // over all links: bytes times hops
};

struct GroupPhase {
  double latency = 0;  // µs
  std::uint32_t first_load = 0;
  std::uint32_t loads = 0;
};

/// Costs of one structure's groups by the chips they lie on, expanded when first asked for. One per worker.
/// Where the order inside the group does not matter (all-to-all, rings that the compiler re-orders) chips
/// are looked up as a set; a ring in given order by its rotation that starts at the lowest chip.
class GroupCosts {
 public:
  GroupCosts(const network::Model& model, const Structure& structure);

  /// Index of the group's cost. `chips` in the group's order. Stays valid until `trim`.
  std::uint32_t find(std::span<const std::int32_t> chips);
  const GroupCost& cost(std::uint32_t index) const { return costs_[index]; }
  std::span<const GroupPhase> phases(const GroupCost& cost) const {
    return {phases_.data() + cost.first_phase, cost.phases};
  }
  std::span<const LinkLoad> loads(const GroupPhase& phase) const {
    return {loads_.data() + phase.first_load, phase.loads};
  }
  /// True when only the set of a group's chips matters, for every set; false may still hold for some sets.
  bool order_free() const { return order_ == Order::kFree; }
  /// True when a group may be turned (its order rotated) without changing anything.
  bool rotates() const { return rotates_ || order_ == Order::kFree; }
  double micros_per_unit() const { return micros_per_unit_; }
  std::size_t size() const { return costs_.size(); }
  /// Forgets everything when more than `limit` loads are held. Indices die.
  bool trim(std::size_t limit);

 private:
  enum class Order : std::uint8_t { kFree, kGiven, kFreeOnGrids };
  static constexpr std::uint32_t kAskAgain = 0xffffffff;  // this set needs the given order

  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t key = 0;  // into keys_, plus one; 0: free
    std::uint32_t cost = 0;
  };
  std::uint32_t look_up(std::span<const std::int32_t> key, bool sorted);
  std::uint32_t expand(std::span<const std::int32_t> chips, std::uint64_t hash);
  void grow();

  const network::Model* model_;
  network::Collective prototype_;
  network::Expander expander_;
  std::size_t group_size_ = 0;  // largest: key stride
  Order order_ = Order::kGiven;
  bool rotates_ = false;  // a ring: any rotation is the same ring
  double micros_per_unit_ = 0;
  std::vector<Slot> table_;
  std::size_t used_ = 0;
  std::vector<std::int32_t> keys_;  // length, then chips
  std::vector<GroupCost> costs_;
  std::vector<GroupPhase> phases_;
  std::vector<LinkLoad> loads_;
  std::vector<std::int32_t> scratch_;
  std::vector<double> dense_;
};

}  // namespace aoizora::place
