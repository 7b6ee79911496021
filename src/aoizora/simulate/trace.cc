#include "aoizora/simulate/trace.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "aoizora/base/json.h"
#include "aoizora/simulate/event_loop.h"
#include "aoizora/simulate/units.h"

namespace aoizora::simulate {
namespace {

class TraceWriter {
 public:
  TraceWriter(const ir::Program& program, const Workload& workload, std::size_t devices)
      : program_(program), workload_(workload), devices_(devices) {}

  void ran(std::int32_t device, const Action& action, double from, double to) {
    if (static_cast<std::size_t>(device) >= devices_) return;
    Json event = {{"name", label(action)}, {"cat", category(action)}, {"ph", "X"}, {"ts", from},
                  {"dur", to - from},      {"pid", device},           {"tid", 0}};
    if (action.source.instruction.valid()) {
      const ir::Instruction& op = program_.instruction(action.source);
      event["args"] = {{"opcode", op.opcode}, {"line", op.position.line}};
    }
    events_.push_back(std::move(event));
  }

  void in_flight(std::int32_t device, std::int32_t collective, double from, double to) {
    if (static_cast<std::size_t>(device) >= devices_) return;
    const auto& wanted = workload_.collectives[static_cast<std::size_t>(collective)];
    Json event = {{"name", workload_.collective_names[static_cast<std::size_t>(collective)]},
                  {"cat", network::kind_name(wanted.kind)},
                  {"ph", "b"},
                  {"id", next_id_},
                  {"ts", from},
                  {"pid", device},
                  {"tid", 0},
                  {"args", {{"bytes", wanted.bytes.value}}}};
    events_.push_back(event);
    event["ph"] = "e";
    event["ts"] = to;
    event.erase("args");
    events_.push_back(std::move(event));
    ++next_id_;
  }

  void name_devices(const topology::Placement& placement, const topology::Slice& slice, Mode mode) {
    if (mode == Mode::kLockStep) return name_process(0, "all devices in lock-step");
    for (std::size_t d = 0; d < std::min(devices_, placement.size()); ++d) {
      name_process(
          d, fmt::format("partition {} on chip ({})", d, fmt::join(slice.coordinates(placement[d]), ",")));
    }
  }

  std::string text() {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Json& a, const Json& b) { return time_of(a) < time_of(b); });
    return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}}.dump(
        -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

 private:
  static double time_of(const Json& event) { return event.value("ts", -1.0); }

  void name_process(std::size_t pid, const std::string& name) {
    events_.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", pid}, {"args", {{"name", name}}}});
    events_.push_back(
        {{"name", "process_sort_index"}, {"ph", "M"}, {"pid", pid}, {"args", {{"sort_index", pid}}}});
  }

  std::string label(const Action& action) const {
    switch (action.kind) {
      case Action::Kind::kDone:
        return "wait: " + workload_.collective_names[static_cast<std::size_t>(action.index)];
      case Action::Kind::kDmaDone:
        return "wait: " + name_of(action.source);
      default:
        return name_of(action.source);
    }
  }
  std::string name_of(ir::InstructionRef source) const {
    return source.instruction.valid() ? std::string(program_.instruction(source).name) : "compute";
  }
  static const char* category(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kDone:
        return "exposed communication";
      case Action::Kind::kDmaDone:
        return "exposed copy";
      default:
        return "compute";
    }
  }

  const ir::Program& program_;
  const Workload& workload_;
  std::size_t devices_;
  std::int64_t next_id_ = 0;
  std::vector<Json> events_;
};

}  // namespace

std::string chrome_trace(const ir::Program& program, const Workload& workload, const network::Model& model,
                         const topology::Placement& placement, Mode mode, TraceOptions options) {
  const StepProgram steps = flatten(workload, {.merge = false});
  const std::vector<Unit> units = Expansion(workload, model).units(placement, mode);
  TraceWriter writer(program, workload, options.devices);
  writer.name_devices(placement, model.slice(), mode);
  const Recorder recorder{
      [&](std::int32_t d, const Action& action, double from, double to) { writer.ran(d, action, from, to); },
      [&](std::int32_t d, std::int32_t c, double from, double to) { writer.in_flight(d, c, from, to); }};
  const std::size_t devices = mode == Mode::kEvent ? static_cast<std::size_t>(workload.partitions) : 1;
  run_events(steps, units, devices, workload.collectives.size(), model.capacities(),
             {.steady_state = false, .recorder = &recorder});
  return writer.text();
}

}  // namespace aoizora::simulate
