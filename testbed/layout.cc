#include "layout.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "aoizora/base/error.h"
#include "shared.h"

namespace aoizora::testbed {
namespace {

using Step = simulate::Action::Kind;

void add_unit(const simulate::Unit& unit, const topology::Placement& placement, Layout& layout) {
  UnitPlan plan;
  const auto number = static_cast<std::int32_t>(layout.units.size());
  plan.first_flow = static_cast<std::int32_t>(layout.flows.size());
  for (const std::int32_t member : unit.members) {
    plan.members.push_back(placement[static_cast<std::size_t>(member)].value);
  }
  for (std::size_t p = 0; p < unit.schedule.phases.size(); ++p) {
    const network::Phase& phase = unit.schedule.phases[p];
    const auto base = static_cast<std::int32_t>(layout.flows.size());
    for (const network::Flow& flow : phase.flows) {
      FlowPlan one;
      one.from = flow.from.value;
      one.to = flow.to.value;
      one.bytes = std::max<std::int64_t>(1, std::llround(flow.bytes));
      one.unit = number;
      one.phase = static_cast<std::int32_t>(p);
      one.first = one.bytes;
      if (flow.after >= 0 && phase.steps > 1) {
        one.after = base + flow.after;
        one.first = std::max<std::int64_t>(1, one.bytes / phase.steps);
      }
      layout.flows.push_back(one);
    }
    plan.phase_flows.push_back(static_cast<std::int32_t>(phase.flows.size()));
  }
  layout.units.push_back(std::move(plan));
}

}  // namespace

Layout lay_out(const simulate::StepProgram& program, std::span<const simulate::Unit> units,
               const topology::Placement& placement) {
  Layout layout;
  layout.copies = program.dmas;
  std::map<std::int32_t, std::int32_t> running;  // collective -> its latest execution
  for (const simulate::Action& action : program.actions) {
    const auto nanos = static_cast<std::int64_t>(action.micros * 1e3);
    switch (action.kind) {
      case Step::kCompute:
        layout.actions.push_back({Action::Kind::kCompute, 0, nanos});
        break;
      case Step::kStart: {
        const auto execution = static_cast<std::int32_t>(layout.units_of.size());
        running[action.index] = execution;
        auto& mine = layout.units_of.emplace_back();
        for (const simulate::Unit& unit : units) {
          if (unit.collective != action.index) continue;
          mine.push_back(static_cast<std::int32_t>(layout.units.size()));
          add_unit(unit, placement, layout);
        }
        layout.actions.push_back({Action::Kind::kStart, execution, 0});
        break;
      }
      case Step::kDone:
        AOIZORA_CHECK(running.contains(action.index), "done before start of {}", action.index);
        layout.actions.push_back({Action::Kind::kDone, running.at(action.index), 0});
        break;
      case Step::kDmaStart:
        layout.actions.push_back({Action::Kind::kCopy, action.index, nanos});
        break;
      case Step::kDmaDone:
        layout.actions.push_back({Action::Kind::kCopied, action.index, 0});
        break;
      case Step::kLoopBegin:
      case Step::kLoopEnd:
        AOIZORA_CHECK(false, "a loop in a straight program");
    }
  }
  if (layout.units.size() > kMostUnits || layout.flows.size() > kMostFlows) {
    user_error("a program of {} transfers in {} groups is too large for the testbed ({}, {})",
               layout.flows.size(), layout.units.size(), kMostFlows, kMostUnits);
  }
  return layout;
}

}  // namespace aoizora::testbed
