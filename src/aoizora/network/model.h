#pragma once

#include <memory>
#include <span>
#include <vector>

#include "aoizora/network/collective.h"
#include "aoizora/network/profile.h"
#include "aoizora/topology/route.h"
#include "aoizora/topology/slice.h"

namespace aoizora::network {

/// One transfer of a phase. `route` are the directed links it occupies (fractions where a tie is split).
struct Flow {
  Chip from;
  Chip to;
  double bytes = 0;
  /// (link, share of the bytes that cross it).
  std::vector<std::pair<Link, double>> route;
  /// The flow of this phase whose round k-1 brings what round k of this one passes on; -1: none.
  std::int32_t after = -1;
};

/// Flows that run together; the phase is over when its last flow is. `steps` identical rounds are one phase
/// with the bytes of all of them.
struct Phase {
  std::vector<Flow> flows;
  std::int32_t steps = 1;
  /// What the phase takes besides its bytes: steps * launch + the hop latency of the longest chain of sends
  /// that wait for each other. In a ring of n, round k of a member waits for round k-1 of the one before, so
  /// the chain is n-1 successive edges; on a line it passes the long closing edge once, not n-1 times. In a
  /// one-shot phase (all-to-all, permute) it is the longest route. One latency for all flows keeps a
  /// collective's time affine in its bytes, time = a + b * bytes, which the search and the replay rely on.
  Micros latency;
  /// The part of it before the flows begin: one launch and the longest route. The rest passes after the last
  /// flow is through.
  Micros lead;
};

/// A collective laid on the slice: the phases of all its groups together (N3).
struct Schedule {
  std::vector<Phase> phases;
  std::string algorithm;  // what was chosen, for people: `ring, 2 colours`
};

struct Cost {
  Micros time;   // alone on the slice, all groups together, max-min fair (N4)
  Micros bound;  // fast bound: never above time
  Link busiest;  // the link that carries most
  Bytes busiest_bytes;
};

/// Prices collectives on one slice. Thread-safe after construction.
class Model {
 public:
  Model(const topology::Slice& slice, const Profile& profile, Assumptions assumptions = {});

  /// N3: expands to phases of flows under a placement. UserError when a group names a partition that the
  /// placement does not have, or one partition twice.
  Schedule schedule(const Collective& collective, const topology::Placement& placement) const;
  Cost cost(const Collective& collective, const topology::Placement& placement) const;
  /// The fast bound alone: latency + bytes on the busiest directed link / capacity. A search, which asks for
  /// many placements of the same collectives, uses BoundEvaluator (bound_evaluator.h), which remembers.
  Micros bound(const Collective& collective, const topology::Placement& placement) const;

  /// Bandwidth of each link of the slice, in bytes/µs: what max_min_rates takes.
  std::span<const double> capacities() const;
  /// Latency of each link, in µs.
  std::span<const double> latencies() const;
  const topology::Router& router() const;
  const topology::Slice& slice() const;
  const Profile& profile() const;
  const Assumptions& assumptions() const;

 private:
  friend class BoundEvaluator;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Max-min fair rates by progressive filling (Bertsekas & Gallager 1992, 6.5.2). capacity[l] in bytes/µs;
/// routes[f] lists (link, share). Returns one rate per flow.
std::vector<double> max_min_rates(std::span<const double> capacity,
                                  std::span<const std::vector<std::pair<Link, double>>> routes);

}  // namespace aoizora::network
