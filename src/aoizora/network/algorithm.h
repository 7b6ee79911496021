#pragma once

#include <span>
#include <string>
#include <vector>

#include "aoizora/network/collective.h"
#include "aoizora/topology/route.h"

/// N3: what one group of a collective sends, for one byte of Collective::bytes. Everything is linear in the
/// bytes, so a group is expanded once for all sizes.
///
/// Algorithm by kind, unless the compiler's hint says otherwise (docs/network.md):
///   all-gather, reduce-scatter, all-reduce   ring; over both axes at once (ND) when the group is a block
///   with
///                                            at least 3 chips along each of two or more dimensions
///   all-to-all                               direct exchange
///   permute                                  its pairs
///   broadcast                                pipelined down a tree of nearest members
namespace aoizora::network {

struct UnitFlow {
  Chip from;
  Chip to;
  double share = 0;         // of Collective::bytes (ragged all-to-all: bytes)
  std::int32_t after = -1;  // see Flow::after; within this group and phase
};

struct UnitPhase {
  std::vector<UnitFlow> flows;
  std::int32_t steps = 1;
  double hop_latency = 0;  // µs, without launches; see Phase::latency
  double lead = 0;         // µs, without the launch: latency of the longest route
};

struct UnitSchedule {
  std::vector<UnitPhase> phases;
  std::string algorithm;
};

/// Whether a ring under this hint sends both ways round.
bool uses_both_directions(const AlgorithmHint& hint);

class Expander {
 public:
  /// `latencies` is per link, µs. Keeps references.
  Expander(const topology::Router& router, std::span<const double> latencies, Assumptions assumptions);

  /// One group in the group's order; of a permute, its (source, target).
  UnitSchedule expand(const Collective& collective, std::span<const Chip> group) const;

  /// Latency of the route between two chips, µs.
  double path_latency(Chip from, Chip to) const;

 private:
  std::vector<Chip> order_of(const Collective& collective, std::span<const Chip> group) const;
  UnitSchedule ring(const Collective& collective, std::span<const Chip> group) const;
  UnitSchedule nd_ring(const Collective& collective, std::span<const Chip> group) const;
  UnitSchedule exchange(const Collective& collective, std::span<const Chip> group) const;
  UnitSchedule broadcast(const Collective& collective, std::span<const Chip> group) const;
  /// Adds a ring's flows: each edge carries `share` in all, split over the directions.
  void add_ring(std::span<const Chip> order, double share, bool both, UnitPhase& phase) const;
  /// Latency of the longest `edges` successive sends around the ring, in either direction.
  double chain_latency(std::span<const Chip> order, std::size_t edges) const;

  const topology::Router* router_;
  std::span<const double> latencies_;
  Assumptions assumptions_;
};

}  // namespace aoizora::network
