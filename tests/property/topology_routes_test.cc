#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "aoizora/base/random.h"
#include "aoizora/topology/route.h"
#include "aoizora/topology/symmetry.h"

namespace aoizora::topology {
namespace {

const char* const kSlices[] = {"v5e:1x8",          "v5e:4x4",           "v6e:8x16",   "v6e:16x16",
                               "v5p:2x2x4",        "v5p:4x4x4",         "v4:4x4x8",   "v7x:2x2x2",
                               "v4:4x4x8_twisted", "v5p:4x8x8_twisted", "v5e:4x4+4x4"};

struct Pair {
  Slice slice;
  Chip from;
  Chip to;
};

Pair random_pair(Random& random) {
  Slice slice = Slice::parse(kSlices[random.below(std::size(kSlices))]);
  const auto chips = static_cast<std::uint32_t>(slice.chips());
  const Chip from(static_cast<std::int32_t>(random.below(chips)));
  return {std::move(slice), from, Chip(static_cast<std::int32_t>(random.below(chips)))};
}

/// Breadth-first search over the links: the slow reference for hops.
std::int32_t reference_hops(const Slice& slice, Chip from, Chip to) {
  const auto core0 = [&](Chip chip) { return Chip(chip.value / slice.cores() * slice.cores()); };
  std::vector<std::int32_t> distance(slice.chips(), -1);
  std::vector<Chip> queue{core0(from)};
  distance[queue[0].at()] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const Link link : slice.outgoing(queue[head])) {
      const DirectedLink& along = slice.links()[link.at()];
      if (along.link_class == LinkClass::kIci && distance[along.to.at()] < 0) {
        distance[along.to.at()] = distance[queue[head].at()] + 1;
        queue.push_back(along.to);
      }
    }
  }
  return distance[core0(to).at()] + (from.value % slice.cores() != to.value % slice.cores() ? 1 : 0);
}

RC_GTEST_PROP(Routes, AreConnectedMinimalAndEndWhereTheyShould, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Pair pair = random_pair(random);
  const Router router(pair.slice, {.highest_first = random.below(2) == 0});
  RC_PRE(pair.slice.slice_of(pair.from) == pair.slice.slice_of(pair.to));
  const std::vector<RoutedLink> route = router.route(pair.from, pair.to);
  RC_ASSERT(std::ssize(route) == router.hops(pair.from, pair.to));
  RC_ASSERT(std::ssize(route) == reference_hops(pair.slice, pair.from, pair.to));
  const std::int32_t cores = pair.slice.cores();
  std::int32_t node = pair.from.value / cores;
  for (const auto& [link, share] : route) {
    const DirectedLink& along = pair.slice.links()[link.at()];
    RC_ASSERT(share == 1.0);
    RC_ASSERT(along.from.value / cores == node);
    node = along.to.value / cores;
  }
  RC_ASSERT(node == pair.to.value / cores);
}

/// Links of a route with the share that crosses each, as a set that does not depend on order.
std::map<std::int32_t, double> loads(const std::vector<RoutedLink>& route) {
  std::map<std::int32_t, double> loads;
  for (const auto& [link, share] : route) {
    loads[link.value] += share;
  }
  return loads;
}

std::int32_t link_between(const Slice& slice, Chip from, Chip to, std::int32_t dim, std::int32_t direction) {
  for (const Link link : slice.outgoing(from)) {
    const DirectedLink& along = slice.links()[link.at()];
    if (along.to == to && (dim < 0 || (along.dim == dim && along.direction == direction))) {
      return link.value;
    }
  }
  return -1;
}

RC_GTEST_PROP(Routes, ATranslationOfTheTorusTranslatesTheRoute, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Pair pair = random_pair(random);
  RC_PRE(pair.slice.slices() == 1 && pair.slice.cores() == 1);
  const Router router(pair.slice, {.split_ties = random.below(2) == 0});
  const auto all = translations(pair.slice);
  const Symmetry& move = all[random.below(static_cast<std::uint32_t>(all.size()))];
  std::map<std::int32_t, double> moved;
  for (const auto& [link, share] : router.route(pair.from, pair.to)) {
    const DirectedLink& along = pair.slice.links()[link.at()];
    moved[link_between(pair.slice, move.map[along.from.at()], move.map[along.to.at()], along.dim,
                       along.direction)] += share;
  }
  RC_ASSERT(moved == loads(router.route(move.map[pair.from.at()], move.map[pair.to.at()])));
}

RC_GTEST_PROP(Routes, SplitTiesShareTheBytesEvenly, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Pair pair = random_pair(random);
  RC_PRE(pair.slice.slice_of(pair.from) == pair.slice.slice_of(pair.to));
  const Router router(pair.slice, {.split_ties = true});
  double total = 0;
  for (const auto& [link, share] : router.route(pair.from, pair.to)) {
    total += share;
  }
  RC_ASSERT(std::abs(total - router.hops(pair.from, pair.to)) < 1e-9);
}

RC_GTEST_PROP(Symmetries, MapLinksToLinksAndKeepDistances, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Pair pair = random_pair(random);
  const auto all = symmetries(pair.slice, {}, true, 512);
  const Symmetry& symmetry = all[random.below(static_cast<std::uint32_t>(all.size()))];
  std::set<Chip> image(symmetry.map.begin(), symmetry.map.end());
  RC_ASSERT(image.size() == pair.slice.chips());
  const Router router(pair.slice);
  RC_ASSERT(router.hops(pair.from, pair.to) ==
            router.hops(symmetry.map[pair.from.at()], symmetry.map[pair.to.at()]));
}

}  // namespace
}  // namespace aoizora::topology
