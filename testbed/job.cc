#include "job.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <iostream>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/topology/graph_file.h"
#include "runner.h"

namespace aoizora::testbed {
namespace {

std::int32_t small(const JsonView& view, std::int64_t low, std::int64_t high) {
  const std::int64_t value = view.integer();
  if (value < low || value > high) view.fail(fmt::format("a number from {} to {}", low, high));
  return static_cast<std::int32_t>(value);
}

topology::Placement placement_from(const JsonView& view, const topology::Slice& slice) {
  topology::Placement placement;
  for (const JsonView& chip : view.items()) {
    placement.emplace_back(small(chip, 0, static_cast<std::int64_t>(slice.chips()) - 1));
  }
  topology::check_placement(slice, placement);
  return placement;
}

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

}  // namespace

LinkSettings read_links(const JsonView& view) {
  LinkSettings links;
  if (const auto rate = view.find("rate_mbit")) links.rate_mbit = rate->number();
  if (links.rate_mbit < 1 || links.rate_mbit > 1000) view.fail("a rate_mbit from 1 to 1000");
  if (const auto mtu = view.find("mtu")) links.mtu = small(*mtu, 576, 65535);
  if (const auto window = view.find("window"))
    links.window = small(*window, std::int64_t{2} * links.mtu, std::int64_t{1} << 20);
  if (const auto burst = view.find("burst")) links.burst = small(*burst, 1, 64);
  if (const auto slots = view.find("slots")) links.slots = small(*slots, 1, 8);
  if ((links.slots & (links.slots - 1)) != 0) view.fail("slots that are 1, 2, 4 or 8");
  return links;
}

Job read_job(const std::string& file) {
  const Json json = parse_json(read_text(file), file);
  const JsonView view(json, file);
  const std::string profile = view.at("profile").string();
  Job job{topology::load_slice(view.at("slice").string()),
          network::Profile::parse(read_text(profile), profile),
          {},
          {},
          {}};
  if (const auto links = view.find("links")) job.links = read_links(*links);
  for (const JsonView& one : view.at("programs").items()) {
    job.programs.push_back(read_program(one.at("file").string()));
    if (job.programs.back().workload.partitions != static_cast<std::int64_t>(job.slice.chips())) {
      one.fail(fmt::format("a program for the {} chips of {}", job.slice.chips(), job.slice.name()));
    }
    auto& placements = job.placements.emplace_back();
    if (const auto list = one.find("placements")) {
      for (const JsonView& placement : list->items())
        placements.push_back(placement_from(placement, job.slice));
    }
  }
  return job;
}

Json predict(const Job& job) {
  const network::Model model(job.slice, job.profile);
  Json result = Json::array();
  for (std::size_t p = 0; p < job.programs.size(); ++p) {
    const Predictor predictor(job.programs[p], model);
    Json times = Json::array();
    for (const topology::Placement& placement : job.placements[p]) {
      const Prediction one = predictor.predict(placement);
      times.push_back({{"event", rounded(one.event, 0.1)},
                       {"lock_step", rounded(one.lock_step, 0.1)},
                       {"collective", rounded(one.collective, 0.1)},
                       {"axis", rounded(one.axis, 0.1)},
                       {"no_contention", rounded(one.no_contention, 0.1)},
                       {"hop_bytes", std::round(one.hop_bytes)}});
    }
    result.push_back({{"program", job.programs[p].name}, {"predictions", std::move(times)}});
  }
  return result;
}

int serve(const Job& job) {
  const Torus torus(job.slice, job.links);
  torus.set_up();
  const network::Model model(job.slice, job.profile);
  std::vector<Layout> layouts;
  std::vector<std::size_t> first;  // layout of a program's first placement
  for (std::size_t p = 0; p < job.programs.size(); ++p) {
    const Predictor predictor(job.programs[p], model);
    first.push_back(layouts.size());
    for (const topology::Placement& placement : job.placements[p]) {
      layouts.push_back(lay_out(predictor.step(), predictor.units(placement), placement));
    }
  }
  Runner runner(torus, layouts);
  fmt::print("ready\n");
  std::fflush(stdout);
  std::size_t program = 0;
  std::size_t placement = 0;
  while (std::cin >> program >> placement) {
    if (program >= job.programs.size() || placement >= job.placements[program].size()) {
      user_error("no placement {} of program {} in the job", placement, program);
    }
    const Measured one = runner.run(first[program] + placement);
    fmt::print(
        "{{\"micros\": {:.1f}, \"busiest_link\": {:.4f}, \"mean_link\": {:.4f}, \"cores\": {:.3f}, "
        "\"machine\": {:.3f}, \"late\": {:.0f}, \"queued\": {}, \"resent\": {}}}\n",
        one.micros, one.busiest_link, one.mean_link, one.cores, one.machine, one.late, one.queued,
        one.resent);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace aoizora::testbed
