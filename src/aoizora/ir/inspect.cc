#include "aoizora/ir/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace aoizora::ir {
namespace {

using Json = nlohmann::ordered_json;

/// times * bytes; a sum that leaves 64 bits stays at the largest number.
std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}

std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

struct Total {
  std::int64_t count = 0;
  std::int64_t executions = 0;
  std::int64_t operand_bytes = 0;
  std::int64_t result_bytes = 0;

  void add(const Collective& collective) {
    ++count;
    executions = saturating_sum(executions, collective.executions);
    operand_bytes =
        saturating_sum(operand_bytes, saturating_product(collective.operand_bytes, collective.executions));
    result_bytes =
        saturating_sum(result_bytes, saturating_product(collective.result_bytes, collective.executions));
  }
  /// What the table is ordered by: the larger side of the operation.
  std::int64_t bytes() const { return std::max(operand_bytes, result_bytes); }
};

std::size_t largest_group(const std::vector<std::vector<std::int64_t>>& groups) {
  std::size_t largest = 0;
  for (const auto& group : groups) largest = std::max(largest, group.size());
  return largest;
}

/// Lines of all computations as written: in MLIR block arguments and captured values are none.
std::size_t instruction_count(const Program& program) {
  std::size_t count = 0;
  for (const Computation& computation : program.computations) {
    if (program.format == Program::Format::kHlo) {
      count += computation.instructions.size();
      continue;
    }
    for (const Instruction& instruction : computation.instructions) {
      count += instruction.opcode != "parameter" ? 1u : 0u;
    }
  }
  return count;
}

Json collective_json(const Program& program, const Collective& collective) {
  const Instruction& instruction = program.instruction(collective.at);
  const auto groups = collective.pairs.empty() ? collective.groups.expanded() : islands(collective);
  Json json;
  json["name"] = instruction.name;
  json["kind"] = collective_name(collective.kind);
  json["computation"] = program.computation(collective.at.computation).name;
  json["operand_bytes"] = collective.operand_bytes;
  json["result_bytes"] = collective.result_bytes;
  json["groups"] = groups;
  json["group_size"] = largest_group(groups);
  json["pattern"] = group_pattern(collective, program.devices());
  json["axes"] = axis_names(collective);
  if (!collective.pairs.empty()) json["source_target_pairs"] = collective.pairs;
  json["ids"] = collective.ids_are_partitions ? "partitions" : "replicas";
  if (collective.channel_id >= 0) json["channel_id"] = collective.channel_id;
  if (collective.host_transfer) json["host_transfer"] = true;
  json["async"] = collective.async;
  json["start"] = program.instruction(collective.start).name;
  json["done"] = program.instruction(collective.done).name;
  json["executions"] = collective.executions;
  json["line"] = instruction.position.line;
  json["column"] = instruction.position.column;
  return json;
}

Json total_json(const Total& total) {
  return {{"count", total.count},
          {"executions", total.executions},
          {"operand_bytes", total.operand_bytes},
          {"result_bytes", total.result_bytes}};
}

/// 1536 → `1.5 KB`; three digits, powers of 1000 as vendors count bytes.
std::string human(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value,
                     unit == 0 || value >= 99.95 ? 0
                     : value >= 9.995            ? 1
                                                 : 2,
                     kUnits[unit]);
}

struct Row {
  CollectiveKind kind{};
  std::string pattern;
  std::string axes;
  Total total;
};

std::vector<Row> rows_of(const Program& program) {
  std::map<std::pair<CollectiveKind, std::string>, Row> rows;
  for (const Collective& collective : program.collectives) {
    const std::string pattern = group_pattern(collective, program.devices());
    Row& row = rows[{collective.kind, pattern}];
    row.kind = collective.kind;
    row.pattern = pattern;
    if (row.axes.empty()) row.axes = axis_names(collective);
    row.total.add(collective);
  }
  std::vector<Row> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) {
    if (a.total.bytes() != b.total.bytes()) return a.total.bytes() > b.total.bytes();
    return std::tie(a.kind, a.pattern) < std::tie(b.kind, b.pattern);
  });
  return sorted;
}

std::string table(const std::vector<Row>& rows) {
  std::size_t width = std::string("groups").size();
  std::vector<std::string> groups;
  for (const Row& row : rows) {
    groups.push_back(row.axes.empty() ? row.pattern : fmt::format("{} ({})", row.pattern, row.axes));
    width = std::max(width, groups.back().size());
  }
  std::string text = fmt::format("{:<21} {:<{}} {:>6} {:>11} {:>12} {:>12}\n", "kind", "groups", width,
                                 "count", "executions", "operands", "result");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Total& total = rows[i].total;
    text += fmt::format("{:<21} {:<{}} {:>6} {:>11} {:>12} {:>12}\n", collective_name(rows[i].kind),
                        groups[i], width, total.count, total.executions, human(total.operand_bytes),
                        human(total.result_bytes));
  }
  return text;
}

}  // namespace

Json inspect_json(const Program& program) {
  Json json;
  json["format"] = program.format == Program::Format::kHlo ? "hlo" : "stablehlo";
  json["module"] = program.module;
  json["num_partitions"] = program.num_partitions;
  json["num_replicas"] = program.num_replicas;
  json["scheduled"] = program.scheduled;
  json["computations"] = program.computations.size();
  json["instructions"] = instruction_count(program);
  json["collectives"] = Json::array();
  std::map<CollectiveKind, Total> totals;
  for (const Collective& collective : program.collectives) {
    json["collectives"].push_back(collective_json(program, collective));
    totals[collective.kind].add(collective);
  }
  json["totals"] = Json::object();
  for (const auto& [kind, total] : totals)
    json["totals"][std::string(collective_name(kind))] = total_json(total);
  json["truncated"] = program.truncated.has_value();
  if (program.truncated) {
    json["truncated_at"] = {{"line", program.truncated->line}, {"column", program.truncated->column}};
  }
  json["warnings"] = program.warnings;
  return json;
}

std::string inspect_text(const Program& program) {
  std::string text =
      fmt::format("{}: {} {}, {} computations, {} instructions, {} devices{}\n", program.file,
                  program.format == Program::Format::kHlo ? "HLO" : "StableHLO",
                  program.module.empty() ? "module" : program.module, program.computations.size(),
                  instruction_count(program), program.devices(), program.scheduled ? ", scheduled" : "");
  if (program.truncated) {
    text += fmt::format("truncated: the text stops at line {}, column {}; what follows is not counted\n",
                        program.truncated->line, program.truncated->column);
  }
  if (program.collectives.empty()) {
    text += "no collectives\n";
  } else {
    text += "bytes per device, times executions:\n" + table(rows_of(program));
  }
  for (const std::string& warning : program.warnings) text += "warning: " + warning + "\n";
  return text;
}

std::string as_utf8(std::string text) {
  // nlohmann::json checks UTF-8 when it writes a string.
  try {
    static_cast<void>(Json(text).dump());
    return text;
  } catch (const Json::type_error&) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
    return text;
  }
}

}  // namespace aoizora::ir
