#pragma once

#include <string>
#include <vector>

#include "aoizora/place/problem.h"
#include "aoizora/place/walk.h"

/// What no placement can beat under the model, found without looking at placements.
namespace aoizora::place {

/// Floors of one structure, over all placements. Times are µs, or µs per byte of the collective.
struct StructureFloor {
  double latency = 0;  // of every group
  double alone = 0;    // busiest link of every group by itself, phases summed
  double weakest = 0;  // what the links of the chip with the least bandwidth need for what it must send
  double spread = 0;   // least bytes times hops of all groups, over the bandwidth of all links
  double links = 0;    // busiest link of all groups together: the larger of the above and of exact values
  std::string why;     // which argument won, for people
};

/// The arguments (docs/placement.md has each with its proof):
///   ring     every edge of a ring crosses at least one link, so a link carries at least one edge's share;
///   send     a chip's shares leave over its own links;
///   block    a group that runs over two dimensions at once either sends over long lines or goes back over
///   short
///            ones;
///   spread   a chip's k nearest chips are at least so far, so all groups need so many link-bytes;
///   set      where a group is a set and the slice has few sets of its size, the best set (all are tried).
class LowerBound {
 public:
  explicit LowerBound(const Problem& problem);

  const std::vector<StructureFloor>& structures() const { return floors_; }
  /// Floors carried through the schedule by FloorWalk: a certified bound of the step, µs.
  double step() const { return step_; }
  /// Per transfer and per window, as FloorWalk takes them.
  const std::vector<double>& alone() const { return alone_; }
  const std::vector<double>& links() const { return links_; }
  const std::vector<double>& windows() const { return windows_; }

 private:
  StructureFloor floor_of(const Structure& structure) const;
  StructureFloor group_floor(const Structure& structure, std::size_t n) const;
  /// What the links need for a structure whose groups run as rings or over two dimensions at once, whichever
  /// the model takes; 0 where that is not known.
  double ring_or_block(const Structure& structure, std::size_t n) const;
  double smallest_part() const;  // of the partitions: the smallest component
  void try_all_sets(const Structure& structure, std::size_t n, StructureFloor& floor) const;

  const Problem* problem_;
  double total_capacity_ = 0;    // bytes/µs of all links
  double weakest_capacity_ = 0;  // bytes/µs that leave the chip with the fewest links
  double widest_capacity_ = 0;   // ... with the most
  double fastest_link_ = 0;
  double least_latency_ = 0;
  bool splits_ = false;                          // a route may be split over two ways
  std::vector<std::vector<std::int32_t>> hops_;  // per chip, to all others, ascending
  std::vector<StructureFloor> floors_;
  std::vector<double> alone_, links_, windows_;
  double step_ = 0;
};

}  // namespace aoizora::place
