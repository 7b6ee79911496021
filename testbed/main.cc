// aoizora-testbed: slices made of network namespaces and rate-limited links. See docs/testbed.md; the studies
// that call it are in testbed/study.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <string_view>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/ir/program.h"
#include "aoizora/place/search.h"
#include "aoizora/topology/graph_file.h"
#include "choose.h"
#include "fairness.h"
#include "hosts.h"
#include "job.h"
#include "private_world.h"
#include "torus.h"

namespace aoizora::testbed {
namespace {

constexpr std::string_view kUsage = R"(aoizora-testbed: slices made of real links on one machine

  aoizora-testbed check
      Can networks be made here? Exit 0, or 3 and why not.
  aoizora-testbed torus SLICE [--links JSON] [--hosts] -- COMMAND...
      Makes the slice in a private world and runs COMMAND in it (namespaces chip0, chip1, ..). All of it goes
      when the command ends or anything is killed.
  aoizora-testbed hosts SLICE [--links JSON] -- COMMAND...
      The same with a host beside each chip: COMMAND runs once on each (environment AOIZORA_HOST, host name hostN,
      addresses in /etc/hosts). Each line `c0 c1 ..` of standard input plugs host 0 into chip c0 and so on, and is
      answered `plugged`. Ends with the input.
  aoizora-testbed fairness [--links JSON] [--json]
      Lets flows share links and compares when each is through with max-min fair sharing.
  aoizora-testbed cut FILE.hlo SLICE --name NAME [--gloo] [--trips N] [--compute SHARE] [--micros T] [--link-rate R]
      A compiled program as a testbed program: loops cut to N iterations, bytes scaled so that its collectives
      keep the links busy for T us, compute scaled to SHARE of T (without it: as in the program). Printed.
      --gloo: a program that JAX compiled for CPUs, unscaled, without compute, with Gloo's algorithms.
  aoizora-testbed choose JOB.json [--most N] [--exhaustive N]
      Which placements of each program to measure, decided by the model alone.
  aoizora-testbed predict JOB.json
      Predicted times of every placement of the job, by the model and by simpler ones.
  aoizora-testbed serve JOB.json
      Does the runs that standard input asks for (`PROGRAM PLACEMENT` a line), one line of JSON each.

  aoizora-testbed torus v5e:2x4 -- ip netns exec chip0 ping -c 3 10.77.0.7
  aoizora-testbed fairness --links '{"rate_mbit": 40}'
)";

struct Arguments {
  std::vector<std::string> plain;
  std::map<std::string, std::string> options;
  std::vector<std::string> command;  // after --

  std::string option(const std::string& name, const std::string& otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : found->second;
  }
  double number(const std::string& name, double otherwise) const {
    const auto found = options.find(name);
    if (found == options.end()) return otherwise;
    char* end = nullptr;
    const double value = std::strtod(found->second.c_str(), &end);
    if (end == found->second.c_str() || *end != '\0')
      user_error("{} takes a number, not {}", name, found->second);
    return value;
  }
  const std::string& at(std::size_t i, std::string_view what) const {
    if (i >= plain.size())
      user_error("{} is missing; aoizora-testbed --help shows what each command takes", what);
    return plain[i];
  }
};

Arguments parse(int argc, char** argv) {
  Arguments result;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") {
      result.command.assign(argv + i + 1, argv + argc);
      break;
    }
    if (word == "--hosts" || word == "--gloo" || word == "--json" || word == "--help") {
      result.options[word] = "";
    } else if (word.starts_with("--")) {
      if (i + 1 >= argc) user_error("{} needs a value", word);
      result.options[word] = argv[++i];
    } else {
      result.plain.push_back(word);
    }
  }
  return result;
}

LinkSettings links_of(const Arguments& arguments) {
  const std::string text = arguments.option("--links", "{}");
  const Json json = parse_json(text, "--links");
  LinkSettings links = read_links(JsonView(json, "--links"));
  links.hosts = arguments.options.contains("--hosts");
  if (links.hosts) links.slots = 1;
  return links;
}

int check() {
  const std::string why = why_no_private_world();
  fmt::print("{}\n", why.empty() ? "networks can be made here" : why);
  return why.empty() ? 0 : 3;
}

int torus(const Arguments& arguments) {
  const topology::Slice slice = topology::load_slice(arguments.at(1, "the slice"));
  const Torus torus(slice, links_of(arguments));
  if (arguments.command.empty()) user_error("what shall run? -- COMMAND is missing");
  return in_private_world([&] {
    torus.set_up();
    const pid_t child = fork();
    if (child == 0) {
      std::vector<char*> words;
      words.reserve(arguments.command.size() + 1);
      for (const std::string& word : arguments.command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      execvp(words[0], words.data());
      fmt::print(stderr, "can't run {}\n", words[0]);
      _exit(127);
    }
    for (;;) {  // as process 1: orphans too
      int status = 0;
      const pid_t gone = wait(&status);
      if (gone == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (gone < 0) return 70;
    }
  });
}

int hosts(const Arguments& arguments) {
  const topology::Slice slice = topology::load_slice(arguments.at(1, "the slice"));
  LinkSettings links = links_of(arguments);
  links.hosts = true;
  links.slots = 1;
  const Torus torus(slice, links);
  if (arguments.command.empty()) user_error("what shall run? -- COMMAND is missing");
  return in_private_world([&] {
    torus.set_up();
    start_hosts(slice.chips(), arguments.command);
    return serve_plugs(torus);
  });
}

/// Time that the busiest link is busy, all collectives together, in row-major order; µs.
double busy_micros(const simulate::Workload& workload, const network::Model& model) {
  const simulate::StepProgram step = simulate::flatten(workload);
  std::vector<double> load(model.slice().links().size(), 0);
  for (std::size_t c = 0; c < workload.collectives.size(); ++c) {
    const auto schedule = model.schedule(workload.collectives[c], topology::row_major(model.slice()));
    for (const auto& phase : schedule.phases) {
      for (const auto& flow : phase.flows) {
        for (const auto& [link, share] : flow.route) {
          load[link.at()] += flow.bytes * share * static_cast<double>(step.executions[c]);
        }
      }
    }
  }
  double busiest = 0;
  for (std::size_t l = 0; l < load.size(); ++l) busiest = std::max(busiest, load[l] / model.capacities()[l]);
  return busiest;
}

double compute_of(const simulate::Workload& workload) {
  double sum = 0;
  for (const auto& op : workload.blocks[0].ops) {
    if (op.kind == simulate::Op::Kind::kCompute) sum += op.duration.value;
  }
  return sum;
}

int cut(const Arguments& arguments) {
  const std::string& file = arguments.at(1, "the compiled program");
  const topology::Slice slice = topology::load_slice(arguments.at(2, "the slice"));
  const network::Profile profile = network::Profile::builtin(slice.kind());
  const network::Model model(slice, profile);
  const auto trips = static_cast<std::int64_t>(arguments.number("--trips", 1));
  const simulate::Workload whole =
      straightened(simulate::lower(ir::read_program(read_text(file), file), profile), trips);
  if (arguments.options.contains("--gloo")) {
    Program program;
    program.name = arguments.option("--name", "program");
    program.slice = slice.name();
    program.source = fmt::format("{}, Gloo's algorithms", file.substr(file.rfind('/') + 1));
    program.workload = with_gloo(scaled(whole, 1, 0));
    program.mesh = place::infer_mesh(program.workload);
    fmt::print("{}\n", to_json(program).dump());
    return 0;
  }
  const double busy = busy_micros(whole, model);
  if (busy <= 0) user_error("{}: no collective crosses a link", file);
  // On its own chip the links are busy for `busy`; here for T, at R bytes/µs.
  const double micros = arguments.number("--micros", 200'000);
  const double rate = arguments.number("--link-rate", 9.7);
  const double bytes = micros / busy * rate / profile.link_bandwidth.value;
  double time = micros / busy;
  if (arguments.options.contains("--compute")) {
    time = arguments.number("--compute", 0) * micros / std::max(1e-9, compute_of(whole));
  }
  Program program;
  program.name = arguments.option("--name", "program");
  program.slice = slice.name();
  program.source = fmt::format("{}, {} iteration(s) a loop, bytes x {:.3g}, compute x {:.3g}",
                               file.substr(file.rfind('/') + 1), trips, bytes, time);
  program.workload = scaled(whole, bytes, time);
  program.mesh = place::infer_mesh(program.workload);
  fmt::print("{}\n", to_json(program).dump());
  return 0;
}

int choose_all(const Arguments& arguments) {
  const Job job = read_job(arguments.at(1, "the job"));
  const network::Model model(job.slice, job.profile);
  Json result = Json::array();
  for (const Program& program : job.programs) {
    const Choices choices = choose(program, model, static_cast<std::size_t>(arguments.number("--most", 24)),
                                   static_cast<std::size_t>(arguments.number("--exhaustive", 48)),
                                   std::hash<std::string>()(program.name));
    Json list = Json::array();
    for (const Choice& choice : choices.choices) {
      Json chips = Json::array();
      for (const Chip chip : choice.placement) chips.push_back(chip.value);
      list.push_back({{"why", choice.why}, {"placement", std::move(chips)}});
    }
    result.push_back({{"program", program.name},
                      {"exhaustive", choices.exhaustive},
                      {"classes", choices.classes},
                      {"choices", std::move(list)}});
  }
  fmt::print("{}\n", result.dump());
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.options.contains("--help") || arguments.plain.empty()) {
    fmt::print("{}", kUsage);
    return arguments.plain.empty() && !arguments.options.contains("--help") ? 2 : 0;
  }
  const std::string& command = arguments.plain[0];
  if (command == "check") return check();
  if (command == "torus") return torus(arguments);
  if (command == "hosts") return hosts(arguments);
  if (command == "fairness") return fairness(links_of(arguments), arguments.options.contains("--json"));
  if (command == "cut") return cut(arguments);
  if (command == "choose") return choose_all(arguments);
  if (command == "predict") {
    fmt::print("{}\n", predict(read_job(arguments.at(1, "the job"))).dump());
    return 0;
  }
  if (command == "serve") {
    const Job job = read_job(arguments.at(1, "the job"));
    return in_private_world([&] { return serve(job); });
  }
  user_error("no command {}; aoizora-testbed --help lists them", command);
}

}  // namespace
}  // namespace aoizora::testbed

int main(int argc, char** argv) {
  try {
    return aoizora::testbed::run(aoizora::testbed::parse(argc, argv));
  } catch (const aoizora::UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 70;
  }
}
