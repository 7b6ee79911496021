#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

/// The TPU compiler's own schedule of one computation (`xla_dump_latency_hiding_schedule`): a protobuf in
/// text form, ScheduleProto of xla/service/hlo.proto.
namespace aoizora::referees {

struct ScheduledOp {
  std::string name;
  std::string opcode;
  std::string op_name;  // metadata: what the user's program called it
  double start = 0;     // cycles
  double end = 0;
};

struct ScheduleText {
  std::string computation;
  std::vector<ScheduledOp> ops;  // in the order they run
  double total_cycles = 0;
  double cycles_per_micro = 0;
  std::map<std::string, double> wasted;  // cycles, per kind of collective
};

/// One a scheduled computation. UserError when the text is no such schedule.
std::vector<ScheduleText> parse_schedules(std::string_view text, const std::string& file);

}  // namespace aoizora::referees
