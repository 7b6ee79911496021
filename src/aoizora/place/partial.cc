#include "aoizora/place/partial.h"

#include <algorithm>
#include <limits>

namespace aoizora::place {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// Floors remembered; a few MB.
constexpr std::size_t kKnown = 20'000;

}  // namespace

Partial::Partial(const Problem& problem, const LowerBound& bound, Of of)
    : problem_(problem),
      bound_(bound),
      of_(of),
      components_(of == Of::kLockStep ? 1 : problem.components()),
      link_sets_(problem.model().slice()),
      walk_(problem),
      lock_step_(problem),
      chips_(problem.positions(), -1),
      taken_(problem.positions(), false),
      started_(problem.components(), 0),
      figures_(problem.structures().size()),
      alone_(bound.alone()),
      slowest_(bound.alone()),
      links_(bound.links()),
      windows_(bound.windows()) {
  const network::Model& model = problem.model();
  const std::size_t links = model.capacities().size();
  for (const Structure& structure : problem.structures()) {
    states_.push_back({GroupCosts(model, structure), SetTable(model, structure, link_sets_), {}, {}, {}});
    for (const auto& group : structure.groups) states_.back().groups.push_back({group.size(), 0, 0});
    states_.back().load.assign(components_, std::vector<double>(links, 0));
    states_.back().means.resize(components_);
    for (auto& means : states_.back().means) means.fill(0);
  }
  if (problem.positions() <= 64) free_ = ~ChipSet{0} >> (64 - problem.positions());
}

void Partial::place(std::size_t position, std::int32_t chip) {
  chips_[position] = chip;
  taken_[static_cast<std::size_t>(chip)] = true;
  const ChipSet bit = problem_.positions() <= 64 ? ChipSet{1} << chip : 0;
  free_ &= ~bit;
  ++started_[static_cast<std::size_t>(problem_.component_of()[position])];
  for (std::size_t s = 0; s < states_.size(); ++s) {
    for (const std::int32_t g : problem_.structures()[s].groups_of[position]) {
      Group& group = states_[s].groups[static_cast<std::size_t>(g)];
      group.members |= bit;
      if (--group.missing == 0) complete(states_[s], s, static_cast<std::size_t>(g), 1);
    }
  }
}

void Partial::take_back(std::size_t position) {
  const ChipSet bit = problem_.positions() <= 64 ? ChipSet{1} << chips_[position] : 0;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    for (const std::int32_t g : problem_.structures()[s].groups_of[position]) {
      Group& group = states_[s].groups[static_cast<std::size_t>(g)];
      if (group.missing++ == 0) complete(states_[s], s, static_cast<std::size_t>(g), -1);
      group.members &= ~bit;
    }
  }
  --started_[static_cast<std::size_t>(problem_.component_of()[position])];
  free_ |= bit;
  taken_[static_cast<std::size_t>(chips_[position])] = false;
  chips_[position] = -1;
}

void Partial::complete(State& state, std::size_t structure, std::size_t group, double sign) {
  if (sign > 0) {
    scratch_.clear();
    for (const std::int32_t p : problem_.structures()[structure].groups[group]) {
      scratch_.push_back(chips_[static_cast<std::size_t>(p)]);
    }
    state.groups[group].cost = state.costs.find(scratch_);
  }
  const GroupCost& cost = state.costs.cost(state.groups[group].cost);
  const std::size_t component = component_of(structure, group);
  for (const GroupPhase& phase : state.costs.phases(cost)) {
    for (const LinkLoad& on : state.costs.loads(phase)) {
      state.load[component][static_cast<std::size_t>(on.link)] += sign * on.load;
      link_sets_.add(on.link, sign * on.load, state.means[component]);
    }
  }
}

GroupLeast Partial::least_of(const State& state, const Group& group, const StructureFloor& floor,
                             const GroupLeast& untouched) const {
  if (state.table.empty()) {
    // Only what holds for any group; its load on average is in StructureFloor::spread.
    GroupLeast least;
    least.latency = floor.latency;
    least.alone = floor.alone;
    least.busiest = 0;
    least.means.fill(0);
    return least;
  }
  return group.members == 0 ? untouched : state.table.least(group.members, free_);
}

Partial::Figures Partial::figures(std::size_t structure, std::size_t component) const {
  const State& state = states_[structure];
  const StructureFloor& floor = bound_.structures()[structure];
  const double unit = state.costs.micros_per_unit();
  const std::vector<double>& load = state.load[component];
  std::array<double, LinkSets::kMost> means = state.means[component];
  for (double& mean : means) mean *= unit * (1 - 1e-12);  // rounding of many sums
  Figures figures{kInfinite, kInfinite, 0, *std::max_element(load.begin(), load.end()) * unit, 0};
  GroupLeast untouched;
  bool asked = false, any = false, completed = false;
  for (std::size_t g = 0; g < state.groups.size(); ++g) {
    if (!problem_.spans(structure) && component_of(structure, g) != component) continue;
    any = true;
    const Group& group = state.groups[g];
    if (group.missing == 0) {
      completed = true;
      const GroupCost& cost = state.costs.cost(group.cost);
      figures.latency = std::min(figures.latency, cost.latency);
      figures.alone = std::min(figures.alone, cost.alone * unit);
      figures.slowest = std::max(figures.slowest, cost.alone * unit);
      figures.longest = std::max(figures.longest, cost.latency);
      continue;
    }
    if (group.members == 0 && !asked && !state.table.empty()) {
      untouched = state.table.least(0, free_);
      asked = true;
    }
    const GroupLeast least = least_of(state, group, floor, untouched);
    figures.latency = std::min(figures.latency, least.latency);
    figures.alone = std::min(figures.alone, least.alone);
    figures.slowest = std::max(figures.slowest, least.alone);
    figures.longest = std::max(figures.longest, least.latency);
    figures.links = std::max(figures.links, least.busiest);
    for (std::size_t i = 0; i < link_sets_.size(); ++i) means[i] += least.means[i];
  }
  if (!any) return {};
  for (std::size_t i = 0; i < link_sets_.size(); ++i) figures.links = std::max(figures.links, means[i]);
  if (!state.table.empty() && completed)
    figures.links = std::max(figures.links, unit * peak(structure, component, figures.links / unit));
  return figures;
}

/// Each open group must fit in somewhere beside the complete ones.
double Partial::peak(std::size_t structure, std::size_t component, double peak) const {
  const State& state = states_[structure];
  bool untouched = false;
  for (std::size_t g = 0; g < state.groups.size(); ++g) {
    const Group& group = state.groups[g];
    if (group.missing == 0 || component_of(structure, g) != component) continue;
    if (group.members == 0 && untouched) continue;
    untouched |= group.members == 0;
    peak = state.table.least_peak(group.members, free_, state.load[component], peak);
  }
  return peak;
}

double Partial::floor() {
  double floor = 0;
  for (std::size_t c = 0; c < components_; ++c) {
    if (c == 0 || started_[c] > 0) floor = std::max(floor, component_floor(c));
  }
  return floor;
}

double Partial::component_floor(std::size_t component) {
  for (std::size_t s = 0; s < states_.size(); ++s) figures_[s] = figures(s, component);
  if (windows_.empty()) {
    if (const auto found = known_.find(figures_); found != known_.end()) return found->second;
  }
  for (std::size_t t = 0; t < links_.size(); ++t) {
    const Transfer& transfer = problem_.transfers()[t];
    const Figures& now = figures_[static_cast<std::size_t>(transfer.structure)];
    alone_[t] = std::max(bound_.alone()[t], now.latency + transfer.bytes * now.alone);
    slowest_[t] = std::max(alone_[t], now.latency + transfer.bytes * now.slowest);
    links_[t] = std::max(bound_.links()[t], transfer.bytes * now.links);
  }
  for (std::size_t w = 0; w < windows_.size(); ++w) {
    windows_[w] = std::max(bound_.windows()[w], window_load(w, component));
  }
  double floor = 0;
  if (of_ == Of::kLockStep) {
    for (std::size_t t = 0; t < alone_.size(); ++t) {
      const Transfer& transfer = problem_.transfers()[t];
      const Figures& now = figures_[static_cast<std::size_t>(transfer.structure)];
      alone_[t] = std::max(slowest_[t], now.longest + std::max(links_[t], transfer.bytes * now.slowest));
    }
    floor = lock_step_.run(alone_, windows_, [this](std::size_t w) { return windows_[w]; });
  } else {
    floor = walk_.run(alone_, slowest_, links_, windows_);
  }
  if (windows_.empty()) {
    if (known_.size() >= kKnown) known_.clear();
    known_.emplace(figures_, floor);
  }
  return floor;
}

double Partial::window_load(std::size_t window, std::size_t component) {
  sum_.assign(problem_.model().capacities().size(), 0.0);
  for (const std::int32_t t : problem_.windows()[window].transfers) {
    const Transfer& transfer = problem_.transfers()[static_cast<std::size_t>(t)];
    const State& state = states_[static_cast<std::size_t>(transfer.structure)];
    const double weight = transfer.bytes * state.costs.micros_per_unit();
    const std::vector<double>& load = state.load[component];
    for (std::size_t l = 0; l < sum_.size(); ++l) sum_[l] += weight * load[l];
  }
  return *std::max_element(sum_.begin(), sum_.end());
}

}  // namespace aoizora::place
