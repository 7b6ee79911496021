#include "aoizora/simulate/replay.h"

#include <algorithm>

#include "aoizora/base/error.h"
#include "aoizora/simulate/floor.h"
#include "aoizora/simulate/step_program.h"
#include "aoizora/simulate/units.h"

namespace aoizora::simulate {
namespace {

void check_partitions(const Workload& workload, const topology::Slice& slice) {
  if (workload.partitions != static_cast<std::int64_t>(slice.chips())) {
    user_error("the program is for {} devices, but {} has {}: give a slice of {} devices",
               workload.partitions, slice.name(), slice.chips(), workload.partitions);
  }
  const auto check = [&](Partition p, std::size_t c) {
    if (!p.valid() || p.value >= workload.partitions) {
      user_error("{} names device {}, but the program has devices 0 to {}", workload.collective_names[c],
                 p.value, workload.partitions - 1);
    }
  };
  for (std::size_t c = 0; c < workload.collectives.size(); ++c) {
    for (const auto& group : workload.collectives[c].groups) {
      for (const Partition p : group) check(p, c);
    }
    for (const auto& [source, target] : workload.collectives[c].pairs) {
      check(source, c);
      check(target, c);
    }
  }
}

std::size_t slowest_of(const std::vector<DeviceTotals>& devices) {
  std::size_t slowest = 0;
  for (std::size_t d = 1; d < devices.size(); ++d) {
    // Equal up to rounding: the lowest partition.
    if (devices[d].end > devices[slowest].end * (1 + 1e-12)) slowest = d;
  }
  return slowest;
}

}  // namespace

struct Replayer::Impl {
  Impl(const Workload& workload, const network::Model& model)
      : program(flatten(workload)), expansion(workload, model), floor(program, workload, model) {}

  StepProgram program;
  Expansion expansion;
  Floor floor;
};

Replayer::Replayer(const Workload& workload, const network::Model& model)
    : workload_(workload), model_(model) {
  check_partitions(workload, model.slice());
  impl_ = std::make_shared<const Impl>(workload, model);
}

StepTime Replayer::run(const topology::Placement& placement, Mode mode) const {
  topology::check_placement(model_.slice(), placement);
  const std::vector<Unit> units = impl_->expansion.units(placement, mode);
  const std::size_t devices = mode == Mode::kEvent ? static_cast<std::size_t>(workload_.partitions) : 1;
  const EventTotals totals =
      run_events(impl_->program, units, devices, workload_.collectives.size(), model_.capacities());
  StepTime result;
  result.slowest = static_cast<std::int32_t>(slowest_of(totals.devices));
  const DeviceTotals& slowest = totals.devices[static_cast<std::size_t>(result.slowest)];
  result.step = Micros(slowest.end);
  result.compute = Micros(slowest.compute);
  result.exposed_comm = Micros(slowest.exposed);
  result.exposed_copies = Micros(slowest.dma_wait);
  result.hidden_comm = Micros(std::max(0.0, slowest.in_flight - slowest.waited_in_flight));
  result.iterations_skipped = totals.iterations_skipped;
  const auto capacity = model_.capacities();
  std::vector<double> bytes(capacity.size(), 0);
  std::vector<double> waiting(capacity.size(), 0);
  const std::vector<Alone> alone = impl_->expansion.alone(placement);
  for (std::size_t c = 0; c < alone.size(); ++c) {
    const auto executions = impl_->program.executions[c];
    for (const auto& [link, load] : alone[c].loads)
      bytes[link.at()] += load * static_cast<double>(executions);
    if (alone[c].busiest.valid()) waiting[alone[c].busiest.at()] += slowest.exposed_by[c];
    const auto runs = static_cast<double>(std::max<std::int64_t>(totals.unit_runs[c], 1));
    result.collectives.push_back({static_cast<std::int32_t>(c), executions, alone[c].time,
                                  Micros(totals.unit_time[c] / runs), Micros(slowest.exposed_by[c]),
                                  alone[c].busiest});
  }
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    result.links.push_back({Link(static_cast<std::int32_t>(l)),
                            Bytes(static_cast<std::int64_t>(bytes[l] + 0.5)), Micros(bytes[l] / capacity[l]),
                            Micros(waiting[l])});
  }
  return result;
}

Micros Replayer::bound(const topology::Placement& placement) const { return impl_->floor.of(placement); }

Mode parse_mode(std::string_view text) {
  if (text == "lock-step") return Mode::kLockStep;
  if (text == "event") return Mode::kEvent;
  user_error("no replay mode {}: lock-step or event", text);
}

}  // namespace aoizora::simulate
