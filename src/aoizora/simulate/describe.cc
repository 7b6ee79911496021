#include "aoizora/simulate/describe.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace aoizora::simulate {
namespace {

using network::Assumptions;

constexpr std::size_t kShown = 8;  // rows of a table for people

std::string_view ring_name(Assumptions::Ring ring) {
  switch (ring) {
    case Assumptions::Ring::kAsCompiled:
      return "as-compiled";
    case Assumptions::Ring::kGiven:
      return "given";
    case Assumptions::Ring::kReordered:
      return "reordered";
  }
  return "";
}

std::string_view routing_name(Assumptions::Routing routing) {
  switch (routing) {
    case Assumptions::Routing::kDimensionOrderXY:
      return "xy";
    case Assumptions::Routing::kDimensionOrderYX:
      return "yx";
    case Assumptions::Routing::kSplitTies:
      return "split";
  }
  return "";
}

/// Loaded links, the busiest first; ties by link.
std::vector<LinkLoad> loaded(const StepTime& time) {
  std::vector<LinkLoad> links;
  std::copy_if(time.links.begin(), time.links.end(), std::back_inserter(links),
               [](const LinkLoad& load) { return load.bytes.value > 0; });
  std::stable_sort(links.begin(), links.end(),
                   [](const LinkLoad& a, const LinkLoad& b) { return a.busy > b.busy; });
  return links;
}

/// Executed collectives, those most waited for first; ties by time in flight, then program order.
std::vector<CollectiveTime> ordered(const StepTime& time) {
  std::vector<CollectiveTime> list;
  std::copy_if(time.collectives.begin(), time.collectives.end(), std::back_inserter(list),
               [](const CollectiveTime& c) { return c.executions > 0; });
  std::stable_sort(list.begin(), list.end(), [](const CollectiveTime& a, const CollectiveTime& b) {
    return a.exposed != b.exposed ? a.exposed > b.exposed : a.in_flight > b.in_flight;
  });
  return list;
}

/// Chips at the ends of a link; the data-centre network is no chip.
Json end_of(const topology::Slice& slice, Chip chip) {
  if (!chip.valid() || chip.at() >= slice.chips()) return "network";
  return slice.coordinates(chip);
}

Json link_json(const LinkLoad& load, const topology::Slice& slice, Micros step) {
  const topology::DirectedLink& link = slice.links()[load.link.at()];
  return {{"from", end_of(slice, link.from)},
          {"to", end_of(slice, link.to)},
          {"bytes", load.bytes.value},
          {"busy_us", load.busy.value},
          {"busy_fraction", step.value > 0 ? load.busy / step : 0.0},
          {"waiting_us", load.waiting.value}};
}

Json collective_json(const CollectiveTime& c, const Workload& workload, const topology::Slice& slice) {
  const auto index = static_cast<std::size_t>(c.collective);
  const network::Collective& wanted = workload.collectives[index];
  Json json = {{"name", workload.collective_names[index]},
               {"kind", network::kind_name(wanted.kind)},
               {"bytes", wanted.bytes.value},
               {"groups", wanted.groups.size() + wanted.pairs.size()},
               {"executions", c.executions},
               {"isolated_us", c.isolated.value},
               {"in_flight_us", c.in_flight.value},
               {"exposed_us", c.exposed.value}};
  if (c.busiest.valid()) {
    const topology::DirectedLink& link = slice.links()[c.busiest.at()];
    json["busiest_link"] = {{"from", end_of(slice, link.from)}, {"to", end_of(slice, link.to)}};
  } else {
    json["busiest_link"] = nullptr;
  }
  return json;
}

std::vector<std::string> warnings(const Workload& workload, const Described& described) {
  std::vector<std::string> all = described.warnings;
  all.insert(all.end(), workload.warnings.begin(), workload.warnings.end());
  return all;
}

std::string text_end(const topology::Slice& slice, Chip chip) {
  if (!chip.valid() || chip.at() >= slice.chips()) return "network";
  return fmt::format("({})", fmt::join(slice.coordinates(chip), ","));
}

}  // namespace

std::string_view mode_name(Mode mode) { return mode == Mode::kEvent ? "event" : "lock-step"; }

Json step_json(const StepTime& time, const Workload& workload, const network::Model& model,
               const Described& described) {
  const topology::Slice& slice = model.slice();
  const network::Profile& profile = model.profile();
  Json json = {{"program", described.program},
               {"slice", slice.name()},
               {"order", described.order},
               {"mode", mode_name(described.mode)},
               {"assumptions",
                {{"ring", ring_name(model.assumptions().ring)},
                 {"routing", routing_name(model.assumptions().routing)},
                 {"profile", profile.name},
                 {"flash_efficiency", profile.flash_efficiency},
                 {"matmul_efficiency", profile.matmul_efficiency},
                 {"hbm_efficiency", profile.hbm_efficiency}}},
               {"step_us", time.step.value},
               {"bound_us", described.bound.value},
               {"compute_us", time.compute.value},
               {"exposed_comm_us", time.exposed_comm.value},
               {"hidden_comm_us", time.hidden_comm.value},
               {"exposed_copies_us", time.exposed_copies.value},
               {"slowest_partition", time.slowest},
               {"stated_error", profile.stated_error},
               {"collectives", Json::array()},
               {"links", Json::array()},
               {"unpriced_us", workload.unpriced.value},
               {"unpriced", workload.unpriced_ops},
               {"warnings", warnings(workload, described)}};
  for (const CollectiveTime& c : ordered(time))
    json["collectives"].push_back(collective_json(c, workload, slice));
  for (const LinkLoad& load : loaded(time)) json["links"].push_back(link_json(load, slice, time.step));
  return json;
}

std::string step_text(const StepTime& time, const Workload& workload, const network::Model& model,
                      const Described& described) {
  const topology::Slice& slice = model.slice();
  std::string text = fmt::format("{} on {}, {} order, {} replay\n\n", described.program, slice.name(),
                                 described.order, mode_name(described.mode));
  const auto row = [&](std::string_view name, Micros value, std::string_view note) {
    text += fmt::format("{:<22}{:>14.1f} us {:>6.1f} %  {}\n", name, value.value,
                        time.step.value > 0 ? 100 * (value / time.step) : 0.0, note);
  };
  row("step", time.step, "");
  row("compute", time.compute, "");
  row("exposed communication", time.exposed_comm, "waiting for collectives, and for members that come late");
  row("exposed copies", time.exposed_copies, "waiting for copies beside compute");
  row("hidden communication", time.hidden_comm, "in flight while computing");
  row("lower bound", described.bound, "no replay of this order is faster");
  const auto collectives = ordered(time);
  if (!collectives.empty()) {
    text += fmt::format("\n{:<34}{:<20}{:>6}{:>14}{:>12}{:>12}{:>12}\n", "collective", "kind", "times",
                        "bytes", "alone us", "flight us", "waited us");
  }
  for (std::size_t i = 0; i < std::min(kShown, collectives.size()); ++i) {
    const CollectiveTime& c = collectives[i];
    const auto& wanted = workload.collectives[static_cast<std::size_t>(c.collective)];
    text += fmt::format("{:<34}{:<20}{:>6}{:>14}{:>12.1f}{:>12.1f}{:>12.1f}\n",
                        workload.collective_names[static_cast<std::size_t>(c.collective)],
                        network::kind_name(wanted.kind), c.executions, wanted.bytes.value, c.isolated.value,
                        c.in_flight.value, c.exposed.value);
  }
  const auto links = loaded(time);
  if (!links.empty())
    text += fmt::format("\n{:<24}{:>16}{:>10}{:>14}\n", "busiest links", "bytes", "busy", "waited us");
  for (std::size_t i = 0; i < std::min(kShown, links.size()); ++i) {
    const topology::DirectedLink& link = slice.links()[links[i].link.at()];
    text += fmt::format("{:<24}{:>16}{:>8.1f} %{:>14.1f}\n",
                        fmt::format("{} -> {}", text_end(slice, link.from), text_end(slice, link.to)),
                        links[i].bytes.value, 100 * (links[i].busy / time.step), links[i].waiting.value);
  }
  text += fmt::format("\nassumed: profile {}, ring {}, routing {}, attention kernels at {:g} of peak\n",
                      model.profile().name, ring_name(model.assumptions().ring),
                      routing_name(model.assumptions().routing), model.profile().flash_efficiency);
  for (const std::string& warning : warnings(workload, described))
    text += fmt::format("warning: {}\n", warning);
  return text;
}

}  // namespace aoizora::simulate
