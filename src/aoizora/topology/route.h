#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "aoizora/topology/slice.h"

namespace aoizora::topology {

/// (link, share of the bytes that cross it). A link that is passed on two of the split paths is listed twice.
using RoutedLink = std::pair<Link, double>;

/// How a minimal route is chosen (N2). Every choice depends on the difference of the coordinates only, so a
/// translation of the torus translates the route.
struct RouteRule {
  /// Highest dimension first (`YX`) instead of lowest first (`XY`).
  bool highest_first = false;
  /// Two minimal ways round (half of an even ring): true shares the bytes evenly, false takes the positive
  /// direction, from every chip.
  bool split_ties = false;
  friend bool operator==(const RouteRule&, const RouteRule&) = default;
};

/// Minimal dimension-ordered routes on a slice (N2); on a custom graph, fewest links, then lowest link ids.
/// Keeps a reference to the slice. Thread-safe.
class Router {
 public:
  explicit Router(const Slice& slice, RouteRule rule = {});

  /// Appends the route; nothing for a chip to itself. UserError when a custom graph has no way.
  void append_route(Chip from, Chip to, std::vector<RoutedLink>& route) const;
  std::vector<RoutedLink> route(Chip from, Chip to) const;
  /// Links on (each of) the minimal path(s).
  std::int32_t hops(Chip from, Chip to) const;

  const Slice& slice() const { return *slice_; }
  RouteRule rule() const { return rule_; }

 private:
  using Offset = std::array<std::int32_t, kMaxDims>;
  /// All minimal signed offsets between two chips of one slice, the preferred one first.
  struct Offsets {
    std::array<Offset, 8> list{};
    std::size_t count = 0;
  };
  Offsets minimal_offsets(Chip from, Chip to) const;
  Offsets twisted_offsets(const Offset& delta) const;
  void walk(Chip from, const Offset& offset, double share, std::vector<RoutedLink>& route) const;
  void append_graph_route(Chip from, Chip to, std::vector<RoutedLink>& route) const;
  void build_graph_tables();

  const Slice* slice_;
  RouteRule rule_;
  std::vector<Link> first_link_;        // custom graph: first link from a node towards another, node * n + to
  std::vector<std::int32_t> distance_;  // custom graph: links between them
};

}  // namespace aoizora::topology
