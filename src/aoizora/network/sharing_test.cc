#include "aoizora/network/sharing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "aoizora/base/random.h"
#include "aoizora/network/in_flight.h"

namespace aoizora::network {
namespace {

using Route = std::vector<std::pair<Link, double>>;

/// The slow reference twin: progressive filling as the book has it. Every round scans every link for the
/// lowest level and gives it to the flows over that link.
std::vector<double> reference_rates(const std::vector<double>& capacity, const std::vector<Route>& routes) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  std::vector<double> rates(routes.size(), kUnlimited);
  while (true) {
    double level = kUnlimited;
    std::size_t full = 0;
    for (std::size_t l = 0; l < capacity.size(); ++l) {
      double used = 0;
      double rising = 0;
      for (std::size_t f = 0; f < routes.size(); ++f) {
        for (const auto& [link, share] : routes[f]) {
          if (link.at() == l) {
            (rates[f] == kUnlimited ? rising : used) += rates[f] == kUnlimited ? share : share * rates[f];
          }
        }
      }
      if (rising > 0 && (capacity[l] - used) / rising < level) {
        level = (capacity[l] - used) / rising;
        full = l;
      }
    }
    if (level == kUnlimited) {
      return rates;
    }
    for (std::size_t f = 0; f < routes.size(); ++f) {
      for (const auto& [link, share] : routes[f]) {
        if (link.at() == full && rates[f] == kUnlimited) {
          rates[f] = level;
        }
      }
    }
  }
}

Route random_route(Random& random, std::size_t links) {
  Route route;
  for (std::size_t l = 0; l < links; ++l) {
    if (random.below(4) == 0) {
      route.emplace_back(Link(static_cast<std::int32_t>(l)), random.below(3) == 0 ? 0.5 : 1.0);
    }
  }
  return route;
}

RC_GTEST_PROP(FairShare, EqualsTheReferenceAsFlowsComeAndGo, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  std::vector<double> capacity(1 + random.below(10));
  for (double& c : capacity) {
    c = 1 + random.below(4);
  }
  FairShare share(capacity);
  std::vector<std::pair<std::int32_t, Route>> alive;
  for (int change = 0; change < 30; ++change) {
    if (!alive.empty() && random.below(3) == 0) {
      const std::uint32_t victim = random.below(static_cast<std::uint32_t>(alive.size()));
      share.remove(alive[victim].first);
      alive.erase(alive.begin() + victim);
    } else {
      const Route route = random_route(random, capacity.size());
      alive.emplace_back(share.add(route), route);
    }
    if (random.below(2) == 0) {
      continue;  // several changes between updates
    }
    share.update();
    std::vector<Route> routes;
    for (const auto& [id, route] : alive) {
      routes.push_back(route);
    }
    const std::vector<double> expected = reference_rates(capacity, routes);
    for (std::size_t f = 0; f < alive.size(); ++f) {
      const double rate = share.rate(alive[f].first);
      RC_ASSERT(rate == expected[f] || std::abs(rate - expected[f]) < 1e-9 * expected[f]);
    }
  }
}

/// No flow can have more without one that has no more than it getting less: each flow crosses a link that is
/// full and on which nobody has more. The definition, checked apart from the algorithm.
RC_GTEST_PROP(FairShare, EachFlowHasABottleneck, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const std::vector<double> capacity(1 + random.below(12), 1.0);
  std::vector<Route> routes(1 + random.below(20));
  for (Route& route : routes) {
    route = random_route(random, capacity.size());
  }
  const std::vector<double> rates = max_min_rates(capacity, routes);
  std::vector<double> used(capacity.size(), 0);
  std::vector<double> highest(capacity.size(), 0);
  for (std::size_t f = 0; f < routes.size(); ++f) {
    for (const auto& [link, share] : routes[f]) {
      used[link.at()] += rates[f] * share;
      highest[link.at()] = std::max(highest[link.at()], rates[f]);
    }
  }
  for (std::size_t f = 0; f < routes.size(); ++f) {
    bool bottleneck = routes[f].empty();
    for (const auto& [link, share] : routes[f]) {
      RC_ASSERT(used[link.at()] < 1 + 1e-9);
      bottleneck = bottleneck || (used[link.at()] > 1 - 1e-9 && rates[f] > highest[link.at()] * (1 - 1e-9));
    }
    RC_ASSERT(bottleneck);
  }
}

Schedule one_flow(double bytes, const Route& route, double latency) {
  Schedule schedule;
  schedule.phases.push_back({{{Chip(0), Chip(1), bytes, route}}, 1, Micros(latency), Micros(latency)});
  return schedule;
}

// Two flows of 100 and 300 bytes over one link of 10 bytes/µs, the second 4 µs later:
//   0..4 alone at 10: 40 sent; 4..16 at 5 each: the first has its last 60, the second 60; then 240 at 10: 40.
TEST(InFlight, SharesAnewWhenAFlowBeginsOrEnds) {
  const std::vector<double> capacity{10};
  const Schedule first = one_flow(100, {{Link(0), 1}}, 0);
  const Schedule second = one_flow(300, {{Link(0), 1}}, 1);
  InFlight flight(capacity);
  std::vector<InFlight::Finished> finished;
  flight.start(first, Micros(0));
  flight.advance(Micros(3), finished);
  flight.start(second, Micros(3));
  EXPECT_DOUBLE_EQ(flight.next().value, 4);
  flight.advance(Micros(1000), finished);
  ASSERT_EQ(finished.size(), 2U);
  EXPECT_DOUBLE_EQ(finished[0].at.value, 16);
  EXPECT_DOUBLE_EQ(finished[1].at.value, 40);
}

// The lead passes before the bytes, the rest of the latency after them: 1 + 100/10 + 3. Another collective
// that begins at 11 has the link to itself from then on.
TEST(InFlight, LatencyIsBeforeAndAfterTheBytes) {
  const std::vector<double> capacity{10};
  Schedule first = one_flow(100, {{Link(0), 1}}, 4);
  first.phases[0].lead = Micros(1);
  const Schedule second = one_flow(50, {{Link(0), 1}}, 0);
  InFlight flight(capacity);
  std::vector<InFlight::Finished> finished;
  flight.start(first, Micros(0));
  flight.advance(Micros(11), finished);
  EXPECT_TRUE(finished.empty());
  flight.start(second, Micros(11));
  flight.advance(Micros(100), finished);
  ASSERT_EQ(finished.size(), 2U);
  EXPECT_DOUBLE_EQ(finished[0].at.value, 14);
  EXPECT_DOUBLE_EQ(finished[1].at.value, 16);
}

TEST(InFlight, NothingToSendIsOverAtOnce) {
  InFlight flight(std::vector<double>{});
  const Schedule empty;
  std::vector<InFlight::Finished> finished;
  flight.start(empty, Micros(5));
  EXPECT_EQ(flight.next(), Micros(5));
  flight.advance(flight.next(), finished);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].at, Micros(5));
}

}  // namespace
}  // namespace aoizora::network
