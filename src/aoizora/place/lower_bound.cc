#include "aoizora/place/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "aoizora/place/group_costs.h"

namespace aoizora::place {
namespace {

using network::Kind;

/// Sets of chips that `set` is willing to try; a few hundred milliseconds.
constexpr double kMostSets = 13'000;

double choose(std::size_t n, std::size_t k) {
  double ways = 1;
  for (std::size_t i = 0; i < k; ++i) ways = ways * static_cast<double>(n - i) / static_cast<double>(i + 1);
  return ways;
}

bool is_ring(Kind kind) {
  return kind == Kind::kAllGather || kind == Kind::kReduceScatter || kind == Kind::kAllReduce;
}

bool says(const network::AlgorithmHint& hint, const char* what) {
  return hint.strategy.find(what) != std::string::npos;
}

/// Whether the model may run a group of n over several dimensions at once (network/algorithm.cc, wants_nd):
/// without a hint only where it is a block of at least 3 along each of them.
bool may_use_dimensions(const network::AlgorithmHint& hint, std::size_t n) {
  if (!hint.strategy.empty()) return says(hint, "ND") || says(hint, "2D");
  if (hint.has_reordering_map.has_value()) return false;
  for (std::size_t a = 3; a * 3 <= n; ++a) {
    if (n % a == 0) return true;
  }
  return false;
}

/// Bytes that each member sends in all, per byte of the collective.
double sent_share(const Structure& structure, double n) {
  switch (structure.prototype.kind) {
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return (n - 1) / n;
    case Kind::kAllReduce:
      return 2 * (n - 1) / n;
    case Kind::kPermute:
      return 1;
    case Kind::kBroadcast:
      return 0;  // only the root must; see group_floor
  }
  return 0;
}

}  // namespace

LowerBound::LowerBound(const Problem& problem) : problem_(&problem) {
  const network::Model& model = problem.model();
  const topology::Slice& slice = model.slice();
  const auto chips = static_cast<std::int32_t>(slice.chips());
  total_capacity_ = std::accumulate(model.capacities().begin(), model.capacities().end(), 0.0);
  fastest_link_ = *std::max_element(model.capacities().begin(), model.capacities().end());
  least_latency_ = *std::min_element(model.latencies().begin(), model.latencies().end());
  splits_ = model.router().rule().split_ties;
  weakest_capacity_ = std::numeric_limits<double>::infinity();
  for (std::int32_t c = 0; c < chips; ++c) {
    // The devices of one chip share its links, and a host's chips share its way out: count them for each.
    double capacity = 0;
    const Chip first(c / slice.cores() * slice.cores());
    std::set<Link> links;
    for (std::int32_t core = 0; core < slice.cores(); ++core) {
      for (const Link link : slice.outgoing(Chip(first.value + core))) links.insert(link);
    }
    if (slice.slices() > 1) links.insert(slice.uplink(slice.host_of(Chip(c))));
    for (const Link link : links) capacity += model.capacities()[link.at()];
    weakest_capacity_ = std::min(weakest_capacity_, capacity);
    widest_capacity_ = std::max(widest_capacity_, capacity);
    std::vector<std::int32_t> hops;
    for (std::int32_t d = 0; d < chips; ++d) {
      if (d != c) hops.push_back(model.router().hops(Chip(c), Chip(d)));
    }
    std::sort(hops.begin(), hops.end());
    hops_.push_back(std::move(hops));
  }
  for (const Structure& structure : problem.structures()) floors_.push_back(floor_of(structure));
  for (const Transfer& transfer : problem.transfers()) {
    const StructureFloor& floor = floors_[static_cast<std::size_t>(transfer.structure)];
    alone_.push_back(floor.latency + transfer.bytes * floor.alone);
    links_.push_back(transfer.bytes * floor.links);
  }
  for (const Window& window : problem.windows()) {
    double weakest = 0, spread = 0, largest = 0;
    for (const std::int32_t t : window.transfers) {
      const Transfer& transfer = problem.transfers()[static_cast<std::size_t>(t)];
      const StructureFloor& floor = floors_[static_cast<std::size_t>(transfer.structure)];
      weakest += transfer.bytes * floor.weakest;
      spread += transfer.bytes * floor.spread;
      largest = std::max(largest, links_[static_cast<std::size_t>(t)]);
    }
    windows_.push_back(std::max({weakest, spread, largest}));
  }
  // Rounding never lifts it above a replay.
  step_ = FloorWalk(problem).run(alone_, alone_, links_, windows_) * (1 - 1e-12);
}

StructureFloor LowerBound::floor_of(const Structure& structure) const {
  StructureFloor floor;
  const bool together = problem_->components() == 1;
  // A structure of some components only has no floor in the others, and which one a chip is in is not known.
  if (structure.groups.empty() || (!together && !structure.covers)) return floor;
  std::set<std::size_t> sizes;
  double link_bytes = 0;
  double least_sent = std::numeric_limits<double>::infinity();
  for (const auto& group : structure.groups) {
    sizes.insert(group.size());
    const auto n = static_cast<double>(group.size());
    least_sent = std::min(least_sent, sent_share(structure, n));
    if (structure.prototype.kind != Kind::kAllToAll) {
      // A ring's edges (n of them, sent_share each in all), a permute's pair, a tree's n-1 edges: one hop
      // each.
      const double edges = structure.permute ? 1 : n;
      link_bytes += structure.prototype.kind == Kind::kBroadcast ? n - 1 : edges * sent_share(structure, n);
    }
  }
  floor.latency = floor.alone = floor.links = std::numeric_limits<double>::infinity();
  if (together) floor.links = 0;
  for (const std::size_t n : sizes) {
    const StructureFloor one = group_floor(structure, n);
    floor.latency = std::min(floor.latency, one.latency);
    if (one.alone < floor.alone) {
      floor.alone = one.alone;
      floor.why = one.why;
    }
    floor.links = together ? std::max(floor.links, one.links) : std::min(floor.links, one.links);
  }
  const bool even = structure.prototype.ragged.empty();
  if (structure.prototype.kind == Kind::kAllToAll && even && structure.covers) {
    // The member on chip c sends 1/n to each of n-1 others, which are no nearer than its n-1 nearest chips.
    const std::size_t n = *sizes.begin();
    std::vector<double> hops;
    for (const auto& of_chip : hops_) {
      hops.push_back(
          std::accumulate(of_chip.begin(), of_chip.begin() + static_cast<std::ptrdiff_t>(n - 1), 0.0));
    }
    // Which chips a component lies on is not known: those in the middle, if there are several.
    const double all = together
                           ? std::accumulate(hops.begin(), hops.end(), 0.0)
                           : *std::min_element(hops.begin(), hops.end()) * static_cast<double>(hops.size());
    link_bytes = all / static_cast<double>(*sizes.rbegin());
  }
  // Components may drift apart, so only one component's bytes are sure to be under way together.
  if (even && (together || (sizes.size() == 1 && !structure.permute)))
    floor.spread = link_bytes * smallest_part() / total_capacity_;
  // On v7x two devices share the links of a chip, and both must send unless to each other.
  // Of a permute only where every chip is a source: what one receives does not load the links it sends over.
  std::set<std::int32_t> sources;
  for (const auto& group : structure.groups) sources.insert(group.front());
  const bool all_send = !structure.permute || sources.size() == problem_->positions();
  if (structure.covers && even && all_send) floor.weakest = least_sent / weakest_capacity_;
  floor.links = std::max({floor.links, floor.weakest, floor.spread});
  return floor;
}

double LowerBound::smallest_part() const {
  std::vector<std::size_t> sizes(problem_->components(), 0);
  for (const std::int32_t c : problem_->component_of()) ++sizes[static_cast<std::size_t>(c)];
  return static_cast<double>(*std::min_element(sizes.begin(), sizes.end())) /
         static_cast<double>(problem_->positions());
}

StructureFloor LowerBound::group_floor(const Structure& structure, std::size_t n) const {
  StructureFloor floor;
  const network::Profile& profile = problem_->model().profile();
  const auto size = static_cast<double>(n);
  const network::Collective& prototype = structure.prototype;
  const double step_latency = profile.launch.value + least_latency_;
  floor.latency = step_latency;
  if (!prototype.ragged.empty()) {
    floor.why = "latency";
    return floor;
  }
  const double sent = sent_share(structure, size);
  floor.alone = floor.links = sent / widest_capacity_;
  floor.why = "send";
  if (is_ring(prototype.kind)) {
    const double passes = prototype.kind == Kind::kAllReduce ? 2 : 1;
    double steps = size - 1;
    if (says(prototype.hint, "StrategyRing")) steps = std::floor(size / 2);
    if (may_use_dimensions(prototype.hint, n)) {
      // Over d dimensions n = n1*..*nd takes (n1-1)+..+(nd-1) steps, least when they are equal.
      const double d =
          static_cast<double>(std::max<std::size_t>(1, problem_->model().slice().dims().size() + 2));
      steps = std::min(steps, d * (std::pow(size, 1 / d) - 1));
      if (const double block = ring_or_block(structure, n); block > floor.links) {
        floor.links = block;
        floor.why = "block";
      }
    } else if (!splits_) {
      const bool one_way = says(prototype.hint, "UniDirection") && prototype.hint.colors == 1;
      const double per_edge = (size - 1) / size / (one_way || n == 2 ? 1 : 2);
      floor.alone = std::max(floor.alone, passes * per_edge / fastest_link_);
      floor.why = "ring";
    }
    floor.latency = passes * std::max(steps, 1.0) * step_latency;
  } else if (!splits_ && (structure.permute || prototype.kind == Kind::kBroadcast)) {
    floor.alone = 1 / fastest_link_;
    floor.why = "ring";
  }
  floor.links = std::max(floor.links, floor.alone);
  if (!structure.permute && choose(problem_->positions(), n) <= kMostSets) try_all_sets(structure, n, floor);
  return floor;
}

double LowerBound::ring_or_block(const Structure& structure, std::size_t n) const {
  const topology::Slice& slice = problem_->model().slice();
  const bool plain = slice.dims().size() == 2 && slice.cores() == 1 && slice.slices() == 1 && !splits_;
  const network::AlgorithmHint& hint = structure.prototype.hint;
  if (!plain || !hint.strategy.empty() || hint.colors == 1) return 0;
  // Of a ring every link that it uses carries half an edge's share (it sends both ways), and an edge is a hop
  // at least. Over a block of a x b chips, an edge along the lines of a has (a-1)(1+b) half shards in all
  // phases. Such a line either goes around its dimension, all of whose links then carry half of that; or it
  // goes back, and 2(a-1) links carry all of it.
  struct Way {
    double busiest;  // share on the group's busiest link
    double volume;   // shares times hops, both directions
  };
  const auto size = static_cast<double>(n);
  std::vector<Way> ways = {{(size - 1) / size / 2, size - 1}};
  for (std::size_t a = 3; a * 3 <= n; ++a) {
    if (n % a != 0) continue;
    const double extent[2] = {static_cast<double>(a), static_cast<double>(n / a)};
    if (extent[0] > slice.dims()[0] || extent[1] > slice.dims()[1]) continue;
    for (int around = 0; around < 4; ++around) {
      Way way{0, 0};
      bool exists = true;
      for (int d = 0; d < 2; ++d) {
        const double along = extent[d], across = extent[1 - d];
        const double share = (along - 1) * (1 + across) / (2 * size);
        const bool turns = (around >> d & 1) != 0;
        exists &= !turns || slice.wraps(d);
        way.busiest = std::max(way.busiest, turns ? share / 2 : share);
        way.volume +=
            across * share *
            (turns ? static_cast<double>(slice.dims()[static_cast<std::size_t>(d)]) : 2 * (along - 1));
      }
      if (exists) ways.push_back(way);
    }
  }
  // The busiest link of all is no less busy than each group's, nor than the mean over all links. So the
  // groups whose own is at most some level choose the least volume among the ways of that level.
  std::sort(ways.begin(), ways.end(), [](const Way& x, const Way& y) { return x.busiest < y.busiest; });
  const bool alike = std::all_of(structure.groups.begin(), structure.groups.end(),
                                 [&](const auto& group) { return group.size() == n; });
  const double groups = alike ? static_cast<double>(structure.groups.size()) * smallest_part() : 0;
  double bound = std::numeric_limits<double>::infinity();
  double volume = bound;
  for (const Way& way : ways) {
    volume = std::min(volume, way.volume);
    bound = std::min(bound, std::max(way.busiest / fastest_link_, groups * volume / total_capacity_));
  }
  return (structure.prototype.kind == Kind::kAllReduce ? 2 : 1) * bound;
}

void LowerBound::try_all_sets(const Structure& structure, std::size_t n, StructureFloor& floor) const {
  GroupCosts costs(problem_->model(), structure);
  if (!costs.order_free()) return;
  const auto chips = static_cast<std::int32_t>(problem_->positions());
  std::vector<std::int32_t> set(n);
  std::iota(set.begin(), set.end(), 0);
  double latency = std::numeric_limits<double>::infinity();
  double alone = latency, links = latency;
  std::vector<double> total(problem_->model().capacities().size());
  while (true) {
    const GroupCost cost = costs.cost(costs.find(set));
    latency = std::min(latency, cost.latency);
    alone = std::min(alone, cost.alone * costs.micros_per_unit());
    std::fill(total.begin(), total.end(), 0.0);
    for (const GroupPhase& phase : costs.phases(cost)) {
      for (const LinkLoad& on : costs.loads(phase)) total[static_cast<std::size_t>(on.link)] += on.load;
    }
    const double busiest = *std::max_element(total.begin(), total.end());
    links = std::min(links, busiest * costs.micros_per_unit());
    // A witness: the argument above is as good as trying them all.
    const auto attains = [](double found, double bound) { return found <= bound * (1 + 1e-9); };
    if (attains(latency, floor.latency) && attains(alone, floor.alone) && attains(links, floor.links)) return;
    std::size_t i = n;
    while (i > 0 && set[i - 1] == chips - static_cast<std::int32_t>(n - i + 1)) --i;
    if (i == 0) break;
    ++set[i - 1];
    for (std::size_t k = i; k < n; ++k) set[k] = set[k - 1] + 1;
  }
  if (alone > floor.alone) floor.why = "set";
  floor.latency = std::max(floor.latency, latency);
  floor.alone = std::max(floor.alone, alone);
  floor.links = std::max(floor.links, links);
}

}  // namespace aoizora::place
