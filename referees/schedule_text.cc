#include "schedule_text.h"

#include <charconv>
#include <memory>

#include "aoizora/base/error.h"

namespace aoizora::referees {
namespace {

/// One message: fields by name, in order.
struct Message {
  std::multimap<std::string_view, std::string_view> fields;
  std::multimap<std::string_view, std::unique_ptr<Message>> messages;

  std::string_view field(std::string_view name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string_view() : found->second;
  }
  std::string text(std::string_view name) const {
    const std::string_view value = field(name);
    return value.size() < 2 ? std::string() : std::string(value.substr(1, value.size() - 2));
  }
  /// Proto text leaves zeroes out.
  double number(std::string_view name) const {
    const std::string_view value = field(name);
    double result = 0;
    std::from_chars(value.data(), value.data() + value.size(), result);
    return result;
  }
  const Message* child(std::string_view name) const {
    const auto found = messages.find(name);
    return found == messages.end() ? nullptr : found->second.get();
  }
};

std::string_view trim(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
}

Message parse(std::string_view text, const std::string& file) {
  Message root;
  std::vector<Message*> open = {&root};
  std::uint32_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    if (line == "}") {
      if (open.size() < 2) throw UserError(file, {line_number, 1}, "a } that closes nothing");
      open.pop_back();
    } else if (line.ends_with('{')) {
      const std::string_view name = line.substr(0, line.find(' '));
      open.push_back(open.back()->messages.emplace(name, std::make_unique<Message>())->second.get());
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
      open.back()->fields.emplace(line.substr(0, colon), trim(line.substr(colon + 1)));
    }
  }
  return root;
}

ScheduleText read_one(const Message* module, const Message* schedule, const std::string& file) {
  ScheduleText result;
  std::map<std::string_view, const Message*> by_id;
  const auto [first, last] = module->messages.equal_range("computations");
  for (auto computation = first; computation != last; ++computation) {
    if (computation->second->field("id") != schedule->field("computation_id")) continue;
    result.computation = computation->second->text("name");
    const auto [begin, end] = computation->second->messages.equal_range("instructions");
    for (auto at = begin; at != end; ++at) by_id[at->second->field("id")] = at->second.get();
  }
  const auto [begin, end] = schedule->messages.equal_range("instructions");
  for (auto at = begin; at != end; ++at) {
    const auto found = by_id.find(at->second->field("id"));
    if (found == by_id.end())
      user_error("{}: instruction {} is not in the module", file, at->second->field("id"));
    const Message* const metadata = found->second->child("metadata");
    result.ops.push_back({found->second->text("name"), found->second->text("opcode"),
                          metadata == nullptr ? std::string() : metadata->text("op_name"),
                          at->second->number("start_timestamp_cycles"),
                          at->second->number("end_timestamp_cycles")});
  }
  result.cycles_per_micro = schedule->number("cycles_per_microsecond");
  if (const Message* const statistics = schedule->child("scheduler_statistics")) {
    result.total_cycles = statistics->number("total_cycles");
    for (const auto& [name, value] : statistics->fields) {
      if (name.ends_with("_wasted_cycles") && name != "total_wasted_cycles") {
        result.wasted[std::string(name.substr(0, name.size() - 14))] = statistics->number(name);
      }
    }
  }
  return result;
}

}  // namespace

std::vector<ScheduleText> parse_schedules(std::string_view text, const std::string& file) {
  const Message root = parse(text, file);
  const Message* const module = root.child("hlo_module");
  const auto [first, last] = root.messages.equal_range("computation_schedules");
  if (module == nullptr || first == last) user_error("{}: no schedule of the TPU compiler", file);
  std::vector<ScheduleText> result;
  for (auto at = first; at != last; ++at) result.push_back(read_one(module, at->second.get(), file));
  return result;
}

}  // namespace aoizora::referees
