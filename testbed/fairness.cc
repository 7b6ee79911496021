#include "fairness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "aoizora/base/json.h"
#include "aoizora/base/random.h"
#include "aoizora/network/model.h"
#include "private_world.h"
#include "runner.h"

namespace aoizora::testbed {
namespace {

struct Case {
  std::string name;
  std::string text;  // what max-min fairness says, by hand
  std::string slice;
  std::vector<FlowPlan> flows;
};

constexpr std::int64_t kBytes = 1'000'000;
constexpr std::string_view kRandom = "progressive filling";

FlowPlan flow(std::int32_t from, std::int32_t to, std::int64_t bytes = kBytes) {
  FlowPlan one;
  one.from = from;
  one.to = to;
  one.bytes = one.first = bytes;
  return one;
}

/// On v5e:2x4 chip c lies at (c % 2, c / 2): 0, 2, 4, 6 are a line. Round robin is max-min fair for flows
/// that wait at one link. A flow that waits at several equally busy ones in turn (some of the random cases
/// have such) gets less than its share: when its queue is empty for a moment at one of them, its turn there
/// is lost.
std::vector<Case> cases() {
  std::vector<Case> list;
  list.push_back({"alone", "1 flow over 3 links: all of it", "v5e:2x4", {flow(0, 6)}});
  list.push_back(
      {"pair", "2 flows between the same two chips: half each", "v5e:2x4", {flow(0, 2), flow(0, 2)}});
  list.push_back({"parking lot",
                  "a flow over three links, and one over each of them: half each",
                  "v5e:2x4",
                  {flow(0, 6), flow(0, 2), flow(2, 4), flow(4, 6)}});
  list.push_back({"two levels",
                  "three flows over one link: a third each; one more over the next link: two thirds",
                  "v5e:2x4",
                  {flow(0, 2), flow(0, 2), flow(0, 4), flow(2, 4)}});
  list.push_back({"near and far",
                  "1, 2 and 3 links before the one they share: a third each",
                  "v5e:2x4",
                  {flow(0, 6), flow(2, 6), flow(4, 6)}});
  Random random(9);
  for (const std::string slice : {"v5e:2x4", "v5e:4x4"}) {
    const std::uint32_t chips = slice == "v5e:2x4" ? 8 : 16;
    Case one{fmt::format("{} flows at random on {}", 2 * chips, slice), std::string(kRandom), slice, {}};
    while (one.flows.size() < std::size_t{2} * chips) {
      const auto from = static_cast<std::int32_t>(random.below(chips));
      const auto to = static_cast<std::int32_t>(random.below(chips));
      if (from != to) one.flows.push_back(flow(from, to, kBytes / 4 * (1 + random.below(4))));
    }
    list.push_back(std::move(one));
  }
  return list;
}

/// One unit of all flows: they start when the last chip has arrived.
Layout layout_of(const Case& one, std::size_t chips) {
  Layout layout;
  layout.flows = one.flows;
  UnitPlan unit;
  for (std::size_t c = 0; c < chips; ++c) unit.members.push_back(static_cast<std::int32_t>(c));
  unit.phase_flows = {static_cast<std::int32_t>(one.flows.size())};
  layout.units.push_back(std::move(unit));
  layout.units_of = {{0}};
  layout.actions = {{Action::Kind::kStart, 0, 0}, {Action::Kind::kDone, 0, 0}};
  return layout;
}

/// When each flow is through, µs, by progressive filling from one completion to the next.
std::vector<double> max_min(const Case& one, const Torus& torus) {
  std::vector<double> capacity;
  for (std::size_t l = 0; l < torus.slice().links().size(); ++l) {
    const double frame = torus.settings().mtu + 14;
    capacity.push_back(torus.rate_mbit(Link(static_cast<std::int32_t>(l))) / 8 * (torus.settings().mtu - 52) /
                       frame);
  }
  std::vector<double> left;
  std::vector<double> end(one.flows.size(), 0);
  std::vector<std::size_t> active;
  for (std::size_t f = 0; f < one.flows.size(); ++f) {
    active.push_back(f);
    left.push_back(static_cast<double>(one.flows[f].bytes));
  }
  double now = 0;
  while (!active.empty()) {
    std::vector<std::vector<std::pair<Link, double>>> routes;
    routes.reserve(active.size());
    for (const std::size_t f : active) {
      routes.push_back(torus.router().route(Chip(one.flows[f].from), Chip(one.flows[f].to)));
    }
    const std::vector<double> rates = network::max_min_rates(capacity, routes);
    double step = 1e18;
    for (std::size_t i = 0; i < active.size(); ++i) step = std::min(step, left[active[i]] / rates[i]);
    now += step;
    std::vector<std::size_t> still;
    for (std::size_t i = 0; i < active.size(); ++i) {
      left[active[i]] -= rates[i] * step;
      if (left[active[i]] < 1e-3) {
        end[active[i]] = now;
      } else {
        still.push_back(active[i]);
      }
    }
    active = std::move(still);
  }
  return end;
}

struct Result {
  std::vector<double> expected, measured;  // µs, per flow
};

Json to_json(const Case& one, const Result& result) {
  Json json = {{"case", one.name}, {"says", one.text}, {"slice", one.slice}, {"flows", Json::array()}};
  for (std::size_t f = 0; f < one.flows.size(); ++f) {
    json["flows"].push_back({{"from", one.flows[f].from},
                             {"to", one.flows[f].to},
                             {"bytes", one.flows[f].bytes},
                             {"expected_us", std::round(result.expected[f])},
                             {"measured_us", std::round(result.measured[f])}});
  }
  return json;
}

}  // namespace

int fairness(const LinkSettings& settings, bool json) {
  constexpr int kRepeats = 5;
  const std::vector<Case> list = cases();
  return in_private_world([&] {
    Json all = Json::array();
    double worst = 0;
    for (const std::string name : {"v5e:2x4", "v5e:4x4"}) {
      const topology::Slice slice = topology::Slice::parse(name);
      const Torus torus(slice, settings);
      if (name == "v5e:2x4") {
        torus.set_up();
      } else {
        enter_fresh_network();
        torus.set_up();
      }
      std::vector<Layout> layouts;
      std::vector<Case> mine;
      for (const Case& one : list) {
        if (one.slice != name) continue;
        mine.push_back(one);
        layouts.push_back(layout_of(one, slice.chips()));
      }
      Runner runner(torus, layouts);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        std::vector<std::vector<double>> repeats(mine[i].flows.size());
        for (int k = 0; k < kRepeats; ++k) {
          const Measured one = runner.run(i);
          for (std::size_t f = 0; f < repeats.size(); ++f) repeats[f].push_back(one.delivered[f]);
        }
        Result result{max_min(mine[i], torus), {}};
        double off = 0;
        double sum = 0;
        for (std::size_t f = 0; f < repeats.size(); ++f) {
          std::sort(repeats[f].begin(), repeats[f].end());
          result.measured.push_back(repeats[f][kRepeats / 2]);
          const double error = std::abs(result.measured[f] / result.expected[f] - 1);
          off = std::max(off, error);
          sum += error / static_cast<double>(repeats.size());
        }
        if (mine[i].text != kRandom) worst = std::max(worst, off);
        all.push_back(to_json(mine[i], result));
        if (json) continue;
        fmt::print("{:<34} {:>2} flows  off by {:4.1f} % on average, {:4.1f} % at most   {}\n", mine[i].name,
                   mine[i].flows.size(), 100 * sum, 100 * off, mine[i].text);
      }
    }
    if (json) fmt::print("{}\n", all.dump());
    return worst < 0.05 ? 0 : 1;
  });
}

}  // namespace aoizora::testbed
