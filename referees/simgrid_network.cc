// Replays the network model's flows in SimGrid (flow level, max-min sharing written by others) and prints how
// far our times are from its times, and how fast both are.
//
//   cmake --preset referees && cmake --build build/referees --target simgrid_network
//   build/referees/referees/simgrid_network [--csv FILE] [--seed N]
//
// SimGrid checks sharing and the course of time, not which ring or route a TPU takes: those are inputs to
// both.
//   phases  the same phases, in each the same flows after the same latency
//   sends   of one-shot phases (all-to-all, permute, one step), each send waits for its own hops only; we let
//           all wait for the longest, so that a collective's time is affine in its bytes
//   rounds  rings step by step: round k of a member starts when round k-1 of the one before has arrived, and
//           is sent after its own round k-1. We price all rounds as one phase; this is what that leaves out.
// SimGrid's own torus always wraps and its default model applies correction factors, hence an explicit graph
// with one link per direction, link latency 0 with the latency slept before each send, CM02, no
// cross-traffic. Its clock counts microseconds here.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <simgrid/s4u.hpp>

#include "aoizora/base/error.h"
#include "aoizora/network/in_flight.h"
#include "network_cases.h"

namespace aoizora::referees {
namespace {

namespace sg = simgrid::s4u;
using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

struct Platform {
  std::unique_ptr<topology::Slice> slice;
  std::unique_ptr<network::Model> model;
  std::unique_ptr<network::InFlight> flight;
  std::vector<sg::Host*> hosts;
};

Platform build_platform(sg::NetZone* root, const std::string& name) {
  Platform platform;
  platform.slice = std::make_unique<topology::Slice>(topology::Slice::parse(name));
  platform.model =
      std::make_unique<network::Model>(*platform.slice, network::Profile::builtin(platform.slice->kind()));
  platform.flight = std::make_unique<network::InFlight>(platform.model->capacities());
  sg::NetZone* zone = sg::create_full_zone(name);
  zone->set_parent(root);
  const auto chips = static_cast<std::int32_t>(platform.slice->chips());
  for (std::int32_t i = 0; i < chips; ++i) {
    platform.hosts.push_back(zone->create_host(fmt::format("{}/{}", name, i), 1.0)->seal());
  }
  std::vector<const sg::Link*> links;
  for (std::size_t l = 0; l < platform.slice->links().size(); ++l) {
    links.push_back(zone->create_link(fmt::format("{}-{}", name, l), platform.model->capacities()[l])
                        ->set_latency(0)
                        ->seal());
  }
  for (std::int32_t from = 0; from < chips; ++from) {
    for (std::int32_t to = 0; to < chips; ++to) {
      if (from == to) {
        continue;
      }
      std::vector<sg::LinkInRoute> route;
      for (const auto& [link, share] : platform.model->router().route(Chip(from), Chip(to))) {
        route.emplace_back(links[link.at()]);
      }
      zone->add_route(platform.hosts[static_cast<std::size_t>(from)]->get_netpoint(),
                      platform.hosts[static_cast<std::size_t>(to)]->get_netpoint(), nullptr, nullptr, route,
                      false);
    }
  }
  zone->seal();
  return platform;
}

double route_latency(const Platform& platform, const network::Flow& flow) {
  double latency = 0;
  for (const auto& [link, share] : flow.route) {
    latency += share * platform.model->latencies()[link.at()];
  }
  return latency;
}

std::uint64_t whole(double bytes) { return static_cast<std::uint64_t>(std::llround(bytes)); }

sg::Host* host(const Platform& platform, Chip chip) { return platform.hosts[chip.at()]; }

enum class Mode : std::uint8_t { kPhases, kSends, kRounds };

/// All flows of a phase, each after its latency.
void run_phase(const Platform& platform, const network::Phase& phase, Mode mode) {
  const double launch = platform.model->profile().launch.value;
  std::vector<std::pair<double, const network::Flow*>> starts;
  for (const network::Flow& flow : phase.flows) {
    const bool own = mode != Mode::kPhases && phase.steps == 1;
    starts.emplace_back(own ? launch + route_latency(platform, flow) : phase.lead.value, &flow);
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<sg::CommPtr> comms;
  double slept = 0;
  for (const auto& [latency, flow] : starts) {
    if (latency > slept) {
      sg::this_actor::sleep_for(latency - slept);
      slept = latency;
    }
    comms.push_back(
        sg::Comm::sendto_async(host(platform, flow->from), host(platform, flow->to), whole(flow->bytes)));
  }
  for (const sg::CommPtr& comm : comms) {
    comm->wait();
  }
  if (phase.latency > phase.lead) {
    sg::this_actor::sleep_for((phase.latency - phase.lead).value);
  }
}

/// Round by round, one actor per flow and round.
void run_rounds(const Platform& platform, const network::Phase& phase) {
  const auto rounds = static_cast<std::size_t>(phase.steps);
  const double launch = platform.model->profile().launch.value;
  std::vector<sg::SemaphorePtr> arrived;  // flow * rounds + round
  for (std::size_t i = 0; i < phase.flows.size() * rounds; ++i) {
    arrived.push_back(sg::Semaphore::create(0));
  }
  std::vector<sg::SemaphorePtr> sent = arrived;  // a member sends one round after the other
  for (sg::SemaphorePtr& semaphore : sent) {
    semaphore = sg::Semaphore::create(0);
  }
  const sg::SemaphorePtr over = sg::Semaphore::create(0);
  for (std::size_t f = 0; f < phase.flows.size(); ++f) {
    const network::Flow& flow = phase.flows[f];
    for (std::size_t round = 0; round < rounds; ++round) {
      sg::Actor::create("round", host(platform, flow.from), [&, f, round] {
        const network::Flow& mine = phase.flows[f];
        if (round > 0) {
          arrived[static_cast<std::size_t>(mine.after) * rounds + round - 1]->acquire();
        }
        sg::this_actor::sleep_for(launch + route_latency(platform, mine));
        if (round > 0) {
          sent[f * rounds + round - 1]->acquire();
        }
        sg::Comm::sendto(host(platform, mine.from), host(platform, mine.to),
                         whole(mine.bytes / static_cast<double>(rounds)));
        sent[f * rounds + round]->release();
        arrived[f * rounds + round]->release();
        over->release();
      });
    }
  }
  for (std::size_t i = 0; i < phase.flows.size() * rounds; ++i) {
    over->acquire();
  }
}

struct Result {
  std::vector<double> ours;    // µs, per collective
  std::vector<double> phases;  // SimGrid, µs
  std::vector<double> sends;   // SimGrid, µs
  std::vector<double> rounds;  // SimGrid, µs; empty where there is nothing to unroll or it is too large
  double our_seconds = 0;
  double simgrid_seconds = 0;  // phases
  std::size_t flows = 0;
};

bool has_rounds(const std::vector<network::Schedule>& schedules) {
  std::size_t sends = 0;
  bool rings = false;
  for (const network::Schedule& schedule : schedules) {
    for (const network::Phase& phase : schedule.phases) {
      const bool ring = !phase.flows.empty() && phase.flows.front().after >= 0;
      rings = rings || ring;
      sends += phase.flows.size() * static_cast<std::size_t>(ring ? phase.steps : 1);
    }
  }
  return rings && sends <= 4000;
}

std::vector<double> run_simgrid(const Platform& platform, const std::vector<network::Schedule>& schedules,
                                Mode mode) {
  std::vector<double> ends(schedules.size(), 0);
  const double start = sg::Engine::get_clock();
  const sg::SemaphorePtr over = sg::Semaphore::create(0);
  for (std::size_t c = 0; c < schedules.size(); ++c) {
    sg::Actor::create("collective", platform.hosts.front(), [&, c] {
      for (const network::Phase& phase : schedules[c].phases) {
        const bool ring = !phase.flows.empty() && phase.flows.front().after >= 0;
        if (mode == Mode::kRounds && ring) {
          run_rounds(platform, phase);
        } else {
          run_phase(platform, phase, mode);
        }
      }
      ends[c] = sg::Engine::get_clock() - start;
      over->release();
    });
  }
  for (std::size_t c = 0; c < schedules.size(); ++c) {
    over->acquire();
  }
  return ends;
}

std::vector<double> run_ours(const Platform& platform, const std::vector<network::Schedule>& schedules) {
  network::InFlight& flight = *platform.flight;
  flight.clear();
  std::vector<network::InFlight::Finished> finished;
  for (const network::Schedule& schedule : schedules) {
    flight.start(schedule, Micros(0));
  }
  flight.advance(Micros(1e15), finished);
  std::vector<double> ends(schedules.size(), 0);
  for (const network::InFlight::Finished& end : finished) {
    ends[static_cast<std::size_t>(end.id)] = end.at.value;
  }
  return ends;
}

Result run_case(const Platform& platform, const NetworkCase& one) {
  std::vector<network::Schedule> schedules;
  Result result;
  for (const network::Collective& collective : one.collectives) {
    schedules.push_back(platform.model->schedule(collective, one.placement));
    for (const network::Phase& phase : schedules.back().phases) {
      result.flows += phase.flows.size();
    }
  }
  // The best of several, of both: the machine may be busy with other things.
  const auto best = [](int repeats, const auto& work) {
    double least = 1e9;
    for (int i = 0; i < repeats; ++i) {
      const Clock::time_point since = Clock::now();
      work();
      least = std::min(least, seconds(since));
    }
    return least;
  };
  result.our_seconds = best(5, [&] { result.ours = run_ours(platform, schedules); });
  result.simgrid_seconds = best(2, [&] { result.phases = run_simgrid(platform, schedules, Mode::kPhases); });
  result.sends = run_simgrid(platform, schedules, Mode::kSends);
  if (has_rounds(schedules)) {
    result.rounds = run_simgrid(platform, schedules, Mode::kRounds);
  }
  return result;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size()))) - 1;
  return values[std::min(at, values.size() - 1)];
}

void print_row(const std::string& name, const std::vector<double>& errors) {
  std::vector<double> sizes;
  double mean = 0;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    mean += error / static_cast<double>(errors.size());
  }
  fmt::print("  {:<44} {:>5} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}\n", name, errors.size(), 100 * mean,
             100 * percentile(sizes, 0.5), 100 * percentile(sizes, 0.95), 100 * percentile(sizes, 1.0));
}

struct Table {
  std::map<std::string, std::vector<double>> rows;
  void add(const std::string& row, double error) { rows[row].push_back(error); }
  void print(const std::string& title) const {
    fmt::print("\n{}\n  {:<44} {:>5} {:>9} {:>9} {:>9} {:>9}\n", title, "ours / SimGrid - 1, in %", "n",
               "mean", "p50", "p95", "max");
    for (const auto& [name, errors] : rows) {
      print_row(name, errors);
    }
  }
};

struct Outlier {
  double error;
  std::string text;
};

void print_outliers(std::vector<Outlier>& outliers, const std::string& mode) {
  std::sort(outliers.begin(), outliers.end(),
            [](const Outlier& a, const Outlier& b) { return std::abs(a.error) > std::abs(b.error); });
  fmt::print("\n{} beyond 3 % ({}), largest first:\n", outliers.size(), mode);
  for (std::size_t i = 0; i < std::min<std::size_t>(outliers.size(), 15); ++i) {
    fmt::print("  {:+6.1f} %  {}\n", 100 * outliers[i].error, outliers[i].text);
  }
}

struct Report {
  Table phases;
  Table sends;
  Table rounds;
  std::vector<Outlier> phase_outliers;
  std::vector<Outlier> send_outliers;
  std::vector<Outlier> round_outliers;
  std::vector<double> speedups;
  std::map<std::string, std::pair<double, double>> speed_of;  // family: our seconds, SimGrid's
  double our_seconds = 0;
  double simgrid_seconds = 0;
  std::size_t flows = 0;

  void compare(const NetworkCase& one, const std::vector<double>& ours, const std::vector<double>& theirs,
               Table& table, std::vector<Outlier>& outliers) {
    for (std::size_t c = 0; c < ours.size(); ++c) {
      if (theirs[c] <= 0) {
        continue;
      }
      const double error = ours[c] / theirs[c] - 1;
      table.add(one.family, error);
      table.add("all", error);
      table.add(fmt::format("kind {}", network::kind_name(one.collectives[c].kind)), error);
      const double megabytes = static_cast<double>(one.collectives[c].bytes.value) / 1e6;
      table.add(megabytes <= 1    ? "size up to 1 MB"
                : megabytes <= 10 ? "size up to 10 MB"
                                  : "size up to 100 MB",
                error);
      if (std::abs(error) > 0.03) {
        outliers.push_back({error, fmt::format("{:.1f} against {:.1f} us, collective {} of {}", ours[c],
                                               theirs[c], c + 1, one.text)});
      }
    }
  }

  void add(const NetworkCase& one, const Result& result) {
    compare(one, result.ours, result.phases, phases, phase_outliers);
    compare(one, result.ours, result.sends, sends, send_outliers);
    if (!result.rounds.empty()) {
      compare(one, result.ours, result.rounds, rounds, round_outliers);
    }
    our_seconds += result.our_seconds;
    simgrid_seconds += result.simgrid_seconds;
    flows += result.flows;
    speedups.push_back(result.simgrid_seconds / result.our_seconds);
    speed_of[one.family].first += result.our_seconds;
    speed_of[one.family].second += result.simgrid_seconds;
  }

  void print(std::size_t cases) {
    fmt::print("{} cases, {} flows; nothing is fitted to SimGrid\n", cases, flows);
    phases.print("The same phases (sharing and the course of time)");
    sends.print("One-shot sends after their own hops");
    rounds.print("Rings round by round (what pricing all rounds as one phase leaves out)");
    print_outliers(phase_outliers, "phases");
    print_outliers(send_outliers, "sends");
    print_outliers(round_outliers, "rounds");
    fmt::print(
        "\nSpeed, the same flows in the same run: ours {:.3f} s, SimGrid {:.3f} s: {:.0f}x in all, "
        "median case {:.0f}x, worst {:.0f}x\n",
        our_seconds, simgrid_seconds, simgrid_seconds / our_seconds, percentile(speedups, 0.5),
        percentile(speedups, 0.0001));
    for (const auto& [family, both] : speed_of) {
      fmt::print("  {}: {:.0f}x\n", family, both.second / both.first);
    }
  }
};

void write_csv(const std::string& path, const std::vector<NetworkCase>& cases,
               const std::vector<Result>& results) {
  std::ofstream out(path);
  out << "case,family,collective,ours_us,phases_us,sends_us,rounds_us,flows,ours_s,simgrid_s\n";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Result& result = results[i];
    for (std::size_t c = 0; c < result.ours.size(); ++c) {
      out << fmt::format("\"{}\",{},{},{},{},{},{},{},{:.9f},{:.9f}\n", cases[i].text, cases[i].family, c,
                         result.ours[c], result.phases[c], result.sends[c],
                         result.rounds.empty() ? 0.0 : result.rounds[c], result.flows, result.our_seconds,
                         result.simgrid_seconds);
    }
  }
}

int run(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::string csv;
  std::vector<char*> engine_args{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--seed" && i + 1 < argc) {
      seed = std::stoull(argv[++i]);
    } else if (flag == "--csv" && i + 1 < argc) {
      csv = argv[++i];
    } else {
      engine_args.push_back(argv[i]);
    }
  }
  int engine_argc = static_cast<int>(engine_args.size());
  engine_args.push_back(nullptr);
  sg::Engine engine(&engine_argc, engine_args.data());
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/crosstraffic:0");
  sg::Engine::set_config("contexts/stack-size:64");

  const std::vector<NetworkCase> cases = network_cases(seed);
  sg::NetZone* root = sg::create_full_zone("all");
  std::map<std::string, Platform> platforms;
  for (const NetworkCase& one : cases) {
    if (!platforms.contains(one.slice)) {
      platforms.emplace(one.slice, build_platform(root, one.slice));
    }
  }
  root->seal();

  std::vector<Result> results;
  sg::Actor::create("controller", platforms.begin()->second.hosts.front(), [&] {
    for (const NetworkCase& one : cases) {
      results.push_back(run_case(platforms.at(one.slice), one));
    }
  });
  engine.run();

  Report report;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    report.add(cases[i], results[i]);
  }
  report.print(cases.size());
  if (!csv.empty()) {
    write_csv(csv, cases, results);
  }
  return 0;
}

}  // namespace
}  // namespace aoizora::referees

int main(int argc, char** argv) { return aoizora::referees::run(argc, argv); }
