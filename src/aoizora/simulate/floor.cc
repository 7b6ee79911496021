#include "aoizora/simulate/floor.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "aoizora/simulate/structures.h"

namespace aoizora::simulate {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

struct ChipsHash {
  std::size_t operator()(const std::vector<std::int32_t>& chips) const {
    std::uint64_t hash = chips.size();
    for (const std::int32_t chip : chips) {
      hash = (hash ^ static_cast<std::uint64_t>(chip)) * std::uint64_t{0x9e3779b97f4a7c15};
      hash ^= hash >> 32;
    }
    return hash;
  }
};

/// What one group needs on given chips: µs = latency + micros * scale, and its load on each link in µs.
struct Need {
  double latency = 0;
  double micros = 0;
  std::vector<std::pair<std::int32_t, double>> loads;
};

/// Groups remembered before all are forgotten: some 100 MB, far above what 16 chips ask for.
constexpr std::size_t kRemembered = 1U << 18;

bool meet(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](std::int32_t d) { return std::binary_search(b.begin(), b.end(), d); });
}

}  // namespace

struct Floor::Workspace {
  struct Cost {                   // of one structure on the placement
    std::vector<double> latency;  // per part
    std::vector<double> micros;   // per part
    double busiest = 0;           // all parts together, no latency
  };
  std::vector<std::unordered_map<std::vector<std::int32_t>, Need, ChipsHash>> needs;  // per structure
  std::vector<Cost> costs;
  std::vector<double> dense;
  std::vector<std::int32_t> key;
  std::size_t remembered = 0;
  // The walk's state: per device, per structure, per collective, per copy.
  std::vector<double> least, some;
  std::vector<std::vector<double>> begun_least, begun_some, copied;
  std::vector<double> began;  // scratch, per part
};

struct Floor::Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Workspace>> free;
};

Floor::Floor(const StepProgram& program, const Workload& workload, const network::Model& model)
    : program_(program),
      model_(model),
      devices_(static_cast<std::size_t>(workload.partitions)),
      pool_(std::make_unique<Pool>()) {
  add_structures(workload);
  add_steps();
}

Floor::~Floor() = default;

void Floor::add_structures(const Workload& workload) {
  const Structures found(workload);
  structure_of_ = found.of;
  for (std::size_t c = 0; c < workload.collectives.size(); ++c) scale_.push_back(found.scale(workload, c));
  for (const network::Collective& whole : found.wholes) {
    Structure& added = structures_.emplace_back();
    added.parts = split(whole);
    for (const network::Collective& part : added.parts) added.members.push_back(members_of(part));
  }
  for (Structure& a : structures_) {
    for (const Structure& b : structures_) {
      a.meets_all.push_back(!b.members.empty() &&
                            std::all_of(a.members.begin(), a.members.end(), [&](const auto& mine) {
                              return std::all_of(b.members.begin(), b.members.end(),
                                                 [&](const auto& theirs) { return meet(mine, theirs); });
                            }));
    }
  }
}

void Floor::add_steps() {
  std::vector<std::int32_t> scope_of(structure_of_.size(), -1);
  std::vector<std::int32_t> scope_of_copy(program_.dmas, -1);
  std::vector<std::int32_t> open = {0};
  std::int32_t scopes = 1;
  for (const Action& action : program_.actions) {
    Step step{&action, false};
    switch (action.kind) {
      case Action::Kind::kLoopBegin:
        open.push_back(scopes++);
        break;
      case Action::Kind::kLoopEnd:
        open.pop_back();
        break;
      case Action::Kind::kStart:
        scope_of[at(action.index)] = open.back();
        break;
      case Action::Kind::kDone:
        step.local = scope_of[at(action.index)] == open.back();
        break;
      case Action::Kind::kDmaStart:
        scope_of_copy[at(action.index)] = open.back();
        break;
      case Action::Kind::kDmaDone:
        step.local = scope_of_copy[at(action.index)] == open.back();
        break;
      case Action::Kind::kCompute:
        break;
    }
    steps_.push_back(step);
  }
}

/// One evaluation. `least[d]`: device d is not before it. `some[s]`: of some group of structure s, no member
/// is before it.
class Floor::Walk {
 public:
  Walk(const Floor& floor, Workspace& work) : floor_(floor), work_(work) {}

  double run(const topology::Placement& placement) {
    for (std::size_t s = 0; s < floor_.structures_.size(); ++s) weigh(s, placement);
    std::fill(work_.least.begin(), work_.least.end(), 0.0);
    std::fill(work_.some.begin(), work_.some.end(), 0.0);
    for (auto& copied : work_.copied) std::fill(copied.begin(), copied.end(), 0.0);
    range(0, floor_.steps_.size());
    double end = 0;
    for (const double time : work_.least) end = std::max(end, time);
    for (const double time : work_.some) end = std::max(end, time);
    return end;
  }

 private:
  void weigh(std::size_t s, const topology::Placement& placement) {
    const Structure& structure = floor_.structures_[s];
    Workspace::Cost& cost = work_.costs[s];
    cost.busiest = 0;
    for (std::size_t p = 0; p < structure.parts.size(); ++p) {
      const Need& need = need_of(s, p, placement);
      cost.latency[p] = need.latency;
      cost.micros[p] = need.micros;
      for (const auto& [link, micros] : need.loads) {
        cost.busiest = std::max(cost.busiest, work_.dense[at(link)] += micros);
      }
    }
    std::fill(work_.dense.begin(), work_.dense.end(), 0.0);
  }

  const Need& need_of(std::size_t s, std::size_t p, const topology::Placement& placement) {
    const network::Collective& part = floor_.structures_[s].parts[p];
    work_.key.clear();
    for (const auto& group : part.groups) {
      for (const Partition member : group) work_.key.push_back(placement[member.at()].value);
    }
    for (const auto& [source, target] : part.pairs) {
      work_.key.push_back(placement[source.at()].value);
      work_.key.push_back(placement[target.at()].value);
    }
    if (work_.remembered > kRemembered) {
      for (auto& needs : work_.needs) needs.clear();
      work_.remembered = 0;
    }
    const auto [found, added] = work_.needs[s].try_emplace(work_.key);
    if (added) {
      ++work_.remembered;
      expand(part, placement, found->second);
    }
    return found->second;
  }

  void expand(const network::Collective& part, const topology::Placement& placement, Need& need) const {
    const auto capacity = floor_.model_.capacities();
    std::vector<double> total(capacity.size(), 0);
    std::vector<double> dense(capacity.size());
    for (const network::Phase& phase : floor_.model_.schedule(part, placement).phases) {
      std::fill(dense.begin(), dense.end(), 0);
      for (const network::Flow& flow : phase.flows) {
        for (const auto& [link, share] : flow.route) {
          const double micros = flow.bytes * share / capacity[link.at()];
          dense[link.at()] += micros;
          total[link.at()] += micros;
        }
      }
      need.latency += phase.latency.value;
      need.micros += dense.empty() ? 0 : *std::max_element(dense.begin(), dense.end());
    }
    for (std::size_t l = 0; l < total.size(); ++l) {
      if (total[l] > 0) need.loads.emplace_back(static_cast<std::int32_t>(l), total[l]);
    }
  }

  void range(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Step& step = floor_.steps_[i];
      const Action& action = *step.action;
      switch (action.kind) {
        case Action::Kind::kCompute:
          for (double& time : work_.least) time += action.micros;
          for (double& time : work_.some) time += action.micros;
          break;
        case Action::Kind::kStart:
          work_.begun_least[at(action.index)] = work_.least;
          work_.begun_some[at(action.index)] = work_.some;
          break;
        case Action::Kind::kDone:
          if (step.local) done(at(action.index));
          break;
        case Action::Kind::kDmaStart:
          for (std::size_t d = 0; d < work_.least.size(); ++d) {
            work_.copied[at(action.index)][d] = work_.least[d] + action.micros;
          }
          break;
        case Action::Kind::kDmaDone:
          if (!step.local) break;
          for (std::size_t d = 0; d < work_.least.size(); ++d) {
            work_.least[d] = std::max(work_.least[d], work_.copied[at(action.index)][d]);
          }
          break;
        case Action::Kind::kLoopBegin:
          loop(action, i + 1);
          i = action.target - 1;
          break;
        case Action::Kind::kLoopEnd:
          break;
      }
    }
  }

  void done(std::size_t c) {
    const std::size_t s = floor_.structure_of_[c];
    const Structure& structure = floor_.structures_[s];
    const Workspace::Cost& cost = work_.costs[s];
    const double scale = floor_.scale_[c];
    double carried = 0;  // a group that all of this one's groups have waited for
    for (std::size_t other = 0; other < floor_.structures_.size(); ++other) {
      if (structure.meets_all[other]) carried = std::max(carried, work_.begun_some[c][other]);
    }
    const std::size_t parts = structure.parts.size();
    double first = parts == 0 ? 0 : 1e300;
    double quickest = first;
    for (std::size_t p = 0; p < parts; ++p) {
      double begin = carried;
      for (const std::int32_t d : structure.members[p]) begin = std::max(begin, work_.begun_least[c][at(d)]);
      const double alone = cost.latency[p] + scale * cost.micros[p];
      for (const std::int32_t d : structure.members[p]) {
        work_.least[at(d)] = std::max(work_.least[at(d)], begin + alone);  // A
      }
      first = std::min(first, begin);
      quickest = std::min(quickest, alone);
    }
    if (parts == 0) return;
    double& some = work_.some[s];
    some = std::max(some, first + scale * cost.busiest);       // B
    some = std::max(some, work_.begun_some[c][s] + quickest);  // the group that was late stays late
  }

  /// The body's map is monotone, and commutes with adding a constant to all times. So if the second iteration
  /// moved every time by at least `grown`, each later one does.
  void loop(const Action& action, std::size_t begin) {
    const std::size_t end = action.target - 1;  // its kLoopEnd
    range(begin, end);
    settle();
    if (action.trips == 1) return;
    const std::vector<double> least = work_.least;
    const std::vector<double> some = work_.some;
    range(begin, end);
    settle();
    double grown = 1e300;
    for (std::size_t d = 0; d < least.size(); ++d) grown = std::min(grown, work_.least[d] - least[d]);
    for (std::size_t s = 0; s < some.size(); ++s) grown = std::min(grown, work_.some[s] - some[s]);
    const double more = std::max(0.0, grown) * static_cast<double>(action.trips - 2);
    for (double& time : work_.least) time += more;
    for (double& time : work_.some) time += more;
  }

  /// No group is before the earliest device.
  void settle() {
    const double earliest = *std::min_element(work_.least.begin(), work_.least.end());
    for (double& time : work_.some) time = std::max(time, earliest);
  }

  const Floor& floor_;
  Workspace& work_;
};

Micros Floor::of(const topology::Placement& placement) const {
  std::unique_ptr<Workspace> work;
  {
    const std::lock_guard lock(pool_->mutex);
    if (!pool_->free.empty()) {
      work = std::move(pool_->free.back());
      pool_->free.pop_back();
    }
  }
  if (!work) {
    work = std::make_unique<Workspace>();
    work->needs.resize(structures_.size());
    work->costs.resize(structures_.size());
    for (std::size_t s = 0; s < structures_.size(); ++s) {
      work->costs[s].latency.resize(structures_[s].parts.size());
      work->costs[s].micros.resize(structures_[s].parts.size());
    }
    work->dense.assign(model_.capacities().size(), 0);
    work->least.resize(devices_);
    work->some.resize(structures_.size());
    work->begun_least.assign(structure_of_.size(), std::vector<double>(devices_, 0));
    work->begun_some.assign(structure_of_.size(), std::vector<double>(structures_.size(), 0));
    work->copied.assign(program_.dmas, std::vector<double>(devices_, 0));
  }
  const double bound = Walk(*this, *work).run(placement);
  const std::lock_guard lock(pool_->mutex);
  pool_->free.push_back(std::move(work));
  // The replay adds the same numbers in another order: stay below its rounding too.
  return Micros(bound * (1 - 1e-12));
}

}  // namespace aoizora::simulate
