#include "aoizora/place/explain.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "aoizora/base/error.h"

namespace aoizora::place {
namespace {

/// Rows of the table for people; the rest is one line.
constexpr std::size_t kRows = 12;

std::string groups_text(const network::Collective& collective) {
  if (!collective.pairs.empty()) return fmt::format("{} pairs", collective.pairs.size());
  if (collective.groups.empty()) return "no groups";
  const auto& first = collective.groups.front();
  std::string members;
  for (std::size_t i = 0; i < std::min<std::size_t>(first.size(), 4); ++i) {
    members += fmt::format("{}{}", i == 0 ? "" : ",", first[i].value);
  }
  if (first.size() > 4) members += ",..";
  return fmt::format("{} x {} ({})", collective.groups.size(), first.size(), members);
}

std::string link_text(const topology::Slice& slice, Link link) {
  if (!link.valid()) return "";
  const topology::DirectedLink& on = slice.links()[link.at()];
  const auto at = [&](Chip chip) {
    return chip.valid() ? fmt::format("{}", fmt::join(slice.coordinates(chip), ",")) : std::string("host");
  };
  return at(on.from) + " -> " + at(on.to);
}

OnPlacement on_placement(const simulate::CollectiveTime& time, const topology::Slice& slice) {
  return {time.isolated.value, time.in_flight.value, time.exposed.value, link_text(slice, time.busiest)};
}

nlohmann::ordered_json json_of(const OnPlacement& on) {
  return {{"isolated_us", on.isolated},
          {"in_flight_us", on.in_flight},
          {"exposed_us", on.exposed},
          {"busiest_link", on.busiest}};
}

std::string half(const OnPlacement& on) {
  return fmt::format("{:>10.1f} {:>10.1f} {:>11.1f}", on.isolated, on.in_flight, on.exposed);
}

}  // namespace

Explanation explain(const simulate::Workload& workload, const topology::Slice& slice,
                    const network::Profile& profile, const Scored& first, const Scored& second) {
  const network::Model model(slice, profile);
  const simulate::Replayer replayer(workload, model);
  const simulate::StepTime a = replayer.run(first.placement, simulate::Mode::kEvent);
  const simulate::StepTime b = replayer.run(second.placement, simulate::Mode::kEvent);
  Explanation explanation{first, second, a.compute.value, {}};
  for (std::size_t i = 0; i < a.collectives.size(); ++i) {
    const auto index = static_cast<std::size_t>(a.collectives[i].collective);
    const network::Collective& collective = workload.collectives[index];
    explanation.collectives.push_back(
        {workload.collective_names[index], std::string(network::kind_name(collective.kind)),
         groups_text(collective), static_cast<double>(collective.bytes.value), a.collectives[i].executions,
         on_placement(a.collectives[i], slice), on_placement(b.collectives[i], slice)});
  }
  std::stable_sort(explanation.collectives.begin(), explanation.collectives.end(),
                   [](const ExplainedCollective& x, const ExplainedCollective& y) {
                     return std::abs(x.first.exposed - x.second.exposed) >
                            std::abs(y.first.exposed - y.second.exposed);
                   });
  return explanation;
}

const Scored& placement_by_name(const Ranking& ranking, const std::string& name) {
  if (name == "best") return ranking.best;
  if (name == "chosen") return ranking.chosen;
  if (name == "worst") return ranking.worst;
  std::string names = "best, chosen, worst, default";
  for (const Scored& baseline : ranking.baselines) {
    if (baseline.placement.empty()) continue;
    if (name == baseline.name) return baseline;
    if (name == "default" && baseline.name != "row_major") return baseline;
    names += ", " + baseline.name;
  }
  user_error("no placement is called {:?}; there are {}", name, names);
}

nlohmann::ordered_json explanation_json(const Explanation& explanation) {
  nlohmann::ordered_json json;
  json["compute_us"] = explanation.compute;
  for (const auto& [key, scored] :
       {std::pair("first", &explanation.first), {"second", &explanation.second}}) {
    json[key] = {
        {"name", scored->name}, {"step_us", scored->step.value}, {"exposed_us", scored->exposed.value}};
  }
  json["collectives"] = nlohmann::ordered_json::array();
  for (const ExplainedCollective& one : explanation.collectives) {
    json["collectives"].push_back({{"name", one.name},
                                   {"kind", one.kind},
                                   {"groups", one.groups},
                                   {"bytes", one.bytes},
                                   {"executions", one.executions},
                                   {"first", json_of(one.first)},
                                   {"second", json_of(one.second)}});
  }
  return json;
}

std::string explanation_text(const Explanation& explanation) {
  const Scored& first = explanation.first;
  const Scored& second = explanation.second;
  std::string text = fmt::format(
      "A: {}, {:.1f} us\nB: {}, {:.1f} us ({:+.2f} %)\ncompute is the same, {:.1f} us; A waits {:.1f} us for "
      "collectives, B {:.1f} us\n\n",
      first.name, first.step.value, second.name, second.step.value, 100 * (second.step / first.step - 1),
      explanation.compute, first.exposed.value, second.exposed.value);
  text += fmt::format("{:<34} {:<24} {:>9} {:>5}  {:>33}  {:>33}\n", "", "", "", "", "A, us", "B, us");
  text += fmt::format("{:<34} {:<24} {:>9} {:>5}  {:>10} {:>10} {:>11}  {:>10} {:>10} {:>11}\n", "collective",
                      "groups", "bytes", "times", "isolated", "concurrent", "waiting", "isolated",
                      "concurrent", "waiting");
  double rest_first = 0, rest_second = 0;
  for (std::size_t i = 0; i < explanation.collectives.size(); ++i) {
    const ExplainedCollective& one = explanation.collectives[i];
    if (i >= kRows) {
      rest_first += one.first.exposed;
      rest_second += one.second.exposed;
      continue;
    }
    text += fmt::format("{:<34} {:<24} {:>9.3g} {:>5}  {}  {}\n", one.name.substr(0, 34), one.groups,
                        one.bytes, one.executions, half(one.first), half(one.second));
  }
  if (explanation.collectives.size() > kRows) {
    text += fmt::format("{:<74}  {:>33.1f}  {:>33.1f}\n",
                        fmt::format("{} others", explanation.collectives.size() - kRows), rest_first,
                        rest_second);
  }
  return text;
}

}  // namespace aoizora::place
