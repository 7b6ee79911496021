#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "aoizora/network/model.h"

namespace aoizora::network {

/// Model::bound for many placements of the same collectives (N4): the search's inner loop.
///
/// The link loads of one group depend on where its chips are, not on where the others are, and are linear in
/// the bytes. So they are kept per (algorithm, chips in the group's order), as a sparse vector of µs per
/// byte; a placement's bound is the sum of its groups' vectors, and its largest entry. Collectives that
/// differ in bytes only are summed once.
///
/// Not thread-safe: one per worker. Results do not depend on what was asked before.
class BoundEvaluator {
 public:
  /// Keeps a copy of the model (cheap) and of what it needs of the collectives. UserError as
  /// Model::schedule, when first asked.
  BoundEvaluator(const Model& model, std::span<const Collective> collectives);

  std::size_t size() const { return members_.size(); }
  /// micros[i] = bound of collective i. Does not allocate once the groups' chips have been seen.
  void bounds(const topology::Placement& placement, std::span<double> micros);
  Micros bound(std::size_t collective, const topology::Placement& placement);

 private:
  /// Which orders of the same chips give the same flows.
  enum class Same : std::uint8_t { kOrder, kRotation, kRotationAndReversal, kSet };
  /// What groups of chips are expanded by: kind and hint (and sizes, when ragged).
  struct Algorithm {
    Collective prototype;  // without groups and pairs
    Same same = Same::kOrder;
    std::vector<std::int32_t> table;  // open addressing: entry index or -1; a power of two
    struct Entry {
      std::uint64_t hash = 0;
      std::uint32_t chips = 0;  // into chips_
      std::uint32_t count = 0;
      std::uint32_t first_phase = 0;  // into phases_
      std::uint32_t phases = 0;
    };
    std::vector<Entry> entries;
    std::vector<std::int32_t> chips_;
  };
  struct PhaseLoads {
    double latency = 0;       // µs
    std::uint32_t first = 0;  // into loads_
    std::uint32_t count = 0;
  };
  struct Load {
    std::int32_t link = 0;
    double micros_per_byte = 0;
  };
  /// Groups under one algorithm; shared by all collectives that have them.
  struct Structure {
    std::size_t algorithm = 0;
    std::vector<std::int32_t> partitions;
    std::vector<std::uint32_t> group_ends;
    std::vector<std::vector<Partition>> groups;  // to recognise an equal one
  };
  struct Member {
    std::size_t structure = 0;
    double bytes = 0;
  };
  struct Answer {  // bound = latency + bytes * micros_per_byte
    double latency = 0;
    double micros_per_byte = 0;
  };

  Same sameness(const Collective& collective) const;
  static void canonicalise(Same same, std::vector<std::int32_t>& chips);
  std::size_t algorithm_index(const Collective& collective);
  std::size_t structure_index(const Collective& collective);
  Answer evaluate(const Structure& structure, const topology::Placement& placement);
  std::uint32_t find_or_expand(Algorithm& algorithm, std::span<const std::int32_t> chips);
  std::uint32_t expand(Algorithm& algorithm, std::span<const std::int32_t> chips, std::uint64_t hash);
  void forget();

  Model model_;
  std::vector<Algorithm> algorithms_;
  std::vector<Structure> structures_;
  std::vector<Member> members_;
  std::vector<Answer> answers_;
  std::vector<PhaseLoads> phases_;
  std::vector<Load> loads_;
  std::size_t entries_ = 0;
  std::vector<double> dense_;  // per phase and link, zero between calls
  std::vector<double> phase_max_;
  std::vector<double> phase_latency_;
  std::vector<std::int32_t> scratch_;
};

}  // namespace aoizora::network
