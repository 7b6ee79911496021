#include "aoizora/place/evaluator.h"

#include <algorithm>
#include <limits>
#include <map>

#include "aoizora/base/error.h"

namespace aoizora::place {
namespace {

/// Loads and keys kept per structure (some 30 MB): beyond, the table starts anew.
constexpr std::size_t kKeptLoads = 2'000'000;

/// Four chains of maxima: one would wait for itself at every link.
double largest(const std::vector<double>& values) {
  double most[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) most[k] = most[k] < values[i + k] ? values[i + k] : most[k];
  }
  for (; i < values.size(); ++i) most[0] = std::max(most[0], values[i]);
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

}  // namespace

Evaluator::Evaluator(const Problem& problem)
    : problem_(&problem),
      states_(problem.structures().size()),
      transfer_(problem.transfers().size()),
      at_most_(problem.windows().size()),
      alone_(problem.transfers().size()),
      slowest_(problem.transfers().size()),
      links_(problem.transfers().size()),
      window_(problem.windows().size()),
      walk_(problem),
      floor_walk_(problem) {
  for (const Structure& structure : problem.structures()) costs_.emplace_back(problem.model(), structure);
  sum_.resize(problem.model().capacities().size());
  std::map<std::vector<std::pair<std::size_t, double>>, std::size_t> known;
  for (const Window& window : problem.windows()) {
    std::map<std::size_t, double> weights;
    for (const std::int32_t t : window.transfers) {
      const Transfer& transfer = problem.transfers()[static_cast<std::size_t>(t)];
      const auto s = static_cast<std::size_t>(transfer.structure);
      weights[s] += transfer.bytes * costs_[s].micros_per_unit();
    }
    std::vector<std::pair<std::size_t, double>> key(weights.begin(), weights.end());
    const auto [at, added] = known.emplace(key, window_loads_.size());
    if (added) window_loads_.push_back({.weights = std::move(key)});
    window_load_of_.push_back(at->second);
  }
}

void Evaluator::assign(const topology::Placement& placement) {
  AOIZORA_CHECK(placement.size() == problem_->positions(), "{} chips for {} positions", placement.size(),
                problem_->positions());
  chips_.clear();
  for (const Chip chip : placement) chips_.push_back(chip.value);
  rebuild();
}

topology::Placement Evaluator::placement() const {
  topology::Placement placement;
  for (const std::int32_t chip : chips_) placement.emplace_back(chip);
  return placement;
}

void Evaluator::rebuild() {
  for (std::size_t s = 0; s < states_.size(); ++s) {
    costs_[s].trim(kKeptLoads);
    State& state = states_[s];
    for (auto& load : state.load) std::fill(load.begin(), load.end(), 0);
    state.volume = 0;
    state.entry.assign(problem_->structures()[s].groups.size(), 0);
    for (std::size_t g = 0; g < state.entry.size(); ++g) place_group(s, g);
  }
}

void Evaluator::place_group(std::size_t structure, std::size_t group) {
  scratch_.clear();
  for (const std::int32_t p : problem_->structures()[structure].groups[group]) {
    scratch_.push_back(chips_[static_cast<std::size_t>(p)]);
  }
  const std::uint32_t entry = costs_[structure].find(scratch_);
  states_[structure].entry[group] = entry;
  add(structure, costs_[structure].cost(entry), 1);
}

void Evaluator::add(std::size_t structure, const GroupCost& cost, double sign) {
  State& state = states_[structure];
  const GroupCosts& costs = costs_[structure];
  while (state.load.size() < cost.phases) state.load.emplace_back(sum_.size(), 0);
  std::size_t p = 0;
  for (const GroupPhase& phase : costs.phases(cost)) {
    double* const load = state.load[p++].data();
    for (const LinkLoad& on : costs.loads(phase)) load[on.link] += sign * on.load;
  }
  state.volume += sign * cost.volume;
  state.stale = true;
}

void Evaluator::swap(std::size_t p, std::size_t q) {
  if (p == q) return;
  std::swap(chips_[p], chips_[q]);
  for (std::size_t s = 0; s < states_.size(); ++s) {
    const Structure& structure = problem_->structures()[s];
    const auto move_group = [&](std::int32_t group) {
      const auto g = static_cast<std::size_t>(group);
      scratch_.clear();
      for (const std::int32_t member : structure.groups[g]) {
        scratch_.push_back(chips_[static_cast<std::size_t>(member)]);
      }
      const std::uint32_t entry = costs_[s].find(scratch_);
      if (entry == states_[s].entry[g]) return;
      add(s, costs_[s].cost(states_[s].entry[g]), -1);
      states_[s].entry[g] = entry;
      add(s, costs_[s].cost(entry), 1);
    };
    const auto& of_p = structure.groups_of[p];
    for (const std::int32_t g : of_p) move_group(g);
    for (const std::int32_t g : structure.groups_of[q]) {
      if (std::find(of_p.begin(), of_p.end(), g) == of_p.end()) move_group(g);
    }
  }
}

void Evaluator::refresh() {
  bool any = false;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    State& state = states_[s];
    if (!state.stale) continue;
    state.stale = false;
    any = true;
    const GroupCosts& costs = costs_[s];
    state.latency = 0;
    double units = 0;
    for (std::size_t p = 0; p < state.load.size(); ++p) {
      units += largest(state.load[p]);
      double slowest = 0;
      for (const std::uint32_t entry : state.entry) {
        const auto phases = costs.phases(costs.cost(entry));
        if (p < phases.size()) slowest = std::max(slowest, phases[p].latency);
      }
      state.latency += slowest;
    }
    state.unit = units * costs.micros_per_unit();
  }
  if (!any) return;
  for (std::size_t t = 0; t < transfer_.size(); ++t) {
    const Transfer& transfer = problem_->transfers()[t];
    const State& state = states_[static_cast<std::size_t>(transfer.structure)];
    transfer_[t] = state.entry.empty() ? 0 : state.latency + transfer.bytes * state.unit;
  }
  for (WindowLoad& window : window_loads_) {
    window.stale = true;
    window.at_most = 0;
    for (const auto& [s, weight] : window.weights) {
      window.at_most += weight * (states_[s].unit / costs_[s].micros_per_unit());
    }
  }
  for (std::size_t w = 0; w < at_most_.size(); ++w) at_most_[w] = window_loads_[window_load_of_[w]].at_most;
}

double Evaluator::window_micros(std::size_t window_load) {
  WindowLoad& window = window_loads_[window_load];
  if (!window.stale) return window.micros;
  window.stale = false;
  std::fill(sum_.begin(), sum_.end(), 0.0);
  for (const auto& [s, weight] : window.weights) {
    for (const auto& phase : states_[s].load) {
      for (std::size_t l = 0; l < sum_.size(); ++l) sum_[l] += weight * phase[l];
    }
  }
  return window.micros = largest(sum_);
}

double Evaluator::score() {
  refresh();
  return walk_.run(transfer_, at_most_, [this](std::size_t w) { return window_micros(window_load_of_[w]); });
}

std::span<const double> Evaluator::transfer_times() {
  refresh();
  return transfer_;
}

double Evaluator::floor() {
  double floor = 0;
  for (std::size_t c = 0; c < problem_->components(); ++c) floor = std::max(floor, component_floor(c));
  return floor;
}

double Evaluator::component_floor(std::size_t component) {
  const std::size_t links = sum_.size();
  std::vector<double> latency(states_.size(), 0), unit(states_.size(), 0), all(states_.size(), 0);
  std::vector<double> slowest(states_.size(), 0);
  std::vector<double> total(states_.size() * links, 0.0);
  for (std::size_t s = 0; s < states_.size(); ++s) {
    // Latency and bytes may be least on different groups; each group has at least both.
    double least_latency = std::numeric_limits<double>::infinity();
    double least_alone = least_latency;
    double* const load = total.data() + s * links;
    for (std::size_t g = 0; g < states_[s].entry.size(); ++g) {
      const bool here = problem_->component_of_group(s, g) == component;
      if (!here && !problem_->spans(s)) continue;
      const GroupCost& cost = costs_[s].cost(states_[s].entry[g]);
      least_latency = std::min(least_latency, cost.latency);
      least_alone = std::min(least_alone, cost.alone);
      slowest[s] = std::max(slowest[s], cost.alone * costs_[s].micros_per_unit());
      if (!here) continue;  // it may have no member in this component, so its bytes may be late
      for (const GroupPhase& phase : costs_[s].phases(cost)) {
        for (const LinkLoad& on : costs_[s].loads(phase)) load[on.link] += on.load;
      }
    }
    if (least_latency == std::numeric_limits<double>::infinity()) continue;  // no group of it here
    latency[s] = least_latency;
    unit[s] = least_alone * costs_[s].micros_per_unit();
    all[s] = *std::max_element(load, load + links) * costs_[s].micros_per_unit();
  }
  for (std::size_t t = 0; t < alone_.size(); ++t) {
    const Transfer& transfer = problem_->transfers()[t];
    const auto s = static_cast<std::size_t>(transfer.structure);
    alone_[t] = latency[s] + transfer.bytes * unit[s];
    slowest_[t] = latency[s] + transfer.bytes * slowest[s];
    links_[t] = transfer.bytes * all[s];
  }
  std::vector<double> window_micros(window_loads_.size());
  for (std::size_t w = 0; w < window_loads_.size(); ++w) {
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (const auto& [s, weight] : window_loads_[w].weights) {
      for (std::size_t l = 0; l < links; ++l) sum_[l] += weight * total[s * links + l];
    }
    window_micros[w] = largest(sum_);
  }
  for (std::size_t w = 0; w < window_.size(); ++w) window_[w] = window_micros[window_load_of_[w]];
  return floor_walk_.run(alone_, slowest_, links_, window_);
}

double Evaluator::volume() const {
  double volume = 0;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    volume += problem_->structures()[s].volume * costs_[s].micros_per_unit() * states_[s].volume;
  }
  return volume;
}

std::uint64_t Evaluator::signature() const {
  std::uint64_t signature = 0;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    std::uint64_t sum = 0;  // groups in any order
    for (const std::uint32_t entry : states_[s].entry) sum += costs_[s].cost(entry).hash;
    signature = (signature ^ sum) * 0xbf58476d1ce4e5b9ULL;
    signature ^= signature >> 29;
  }
  return signature;
}

}  // namespace aoizora::place
