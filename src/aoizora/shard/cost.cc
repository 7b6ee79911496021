#include "aoizora/shard/cost.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "aoizora/shard/dot.h"
#include "aoizora/simulate/collectives.h"

namespace aoizora::shard {
namespace {

using ir::Computation;
using ir::Instruction;

bool one_of(std::string_view opcode, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), opcode) != names.end();
}

/// Ops that end a fusion: their operands are read from HBM and their result is written there.
bool materialises(const Instruction& op) {
  return op.collective.valid() ||
         one_of(op.opcode, {"stablehlo.dot_general", "stablehlo.convolution", "stablehlo.custom_call",
                            "stablehlo.reduce", "stablehlo.gather", "stablehlo.scatter", "stablehlo.sort",
                            "stablehlo.concatenate", "stablehlo.dynamic_update_slice", "stablehlo.fft",
                            "stablehlo.rng_bit_generator"});
}

/// Values that exist in HBM without this block computing them, and results of ops that were materialised.
bool is_source(const Instruction& op) {
  return materialises(op) || op.opcode == "parameter" ||
         one_of(op.opcode, {"stablehlo.while", "func.call", "stablehlo.case"});
}

/// Slices read only what they take.
bool is_slice(const Instruction& op) {
  return one_of(op.opcode, {"stablehlo.slice", "stablehlo.dynamic_slice"});
}

bool leaves_block(const Instruction& op) { return one_of(op.opcode, {"stablehlo.return", "func.return"}); }

/// Bytes that a fused group ending in `op` reads: every distinct source behind its element-wise producers.
class Reads {
 public:
  explicit Reads(const Computation& block) : block_(block), seen_(block.instructions.size(), 0) {}

  std::int64_t of(const Instruction& op) {
    ++round_;
    std::int64_t bytes = 0;
    stack_.clear();
    for (const auto& operand : op.operands) {
      // What a block returns is only passed on, unless its last element-wise step has still to be computed.
      if (leaves_block(op) && is_source(block_.instructions[operand.instruction.at()])) continue;
      stack_.push_back(operand);
    }
    while (!stack_.empty()) {
      const ir::Operand operand = stack_.back();
      stack_.pop_back();
      const Instruction& producer = block_.instructions[operand.instruction.at()];
      if (is_source(producer)) {
        bytes += source_bytes(operand, producer);
        continue;
      }
      if (std::exchange(seen_[operand.instruction.at()], round_) == round_) continue;
      if (is_slice(producer)) {
        bytes += producer.shape->byte_size();
      } else {
        for (const auto& next : producer.operands) stack_.push_back(next);
      }
    }
    return bytes;
  }

 private:
  /// A loop or call has many results; only the element that is used is read.
  std::int64_t source_bytes(const ir::Operand& operand, const Instruction& producer) {
    const ir::Shape& shape = *producer.shape;
    if (!shape.is_tuple()) {
      return std::exchange(seen_[operand.instruction.at()], round_) == round_ ? 0 : shape.byte_size();
    }
    const auto element = static_cast<std::size_t>(std::max(0, operand.tuple_index));
    return element < shape.tuple.size() ? shape.tuple[element].byte_size() : 0;
  }

  const Computation& block_;
  std::vector<int> seen_;
  std::vector<ir::Operand> stack_;
  int round_ = 0;
};

/// A number of a kernel's declared cost_estimate inside the (escaped) backend_config.
std::optional<double> declared(std::string_view config, std::string_view key) {
  const std::size_t estimate = config.find("cost_estimate");
  if (estimate == std::string_view::npos) return std::nullopt;
  std::size_t at = config.find(key, estimate);
  if (at == std::string_view::npos) return std::nullopt;
  at = config.find(':', at);
  if (at == std::string_view::npos) return std::nullopt;
  double value = 0;
  const char* begin = config.data() + at + 1;
  const auto [end, failed] = std::from_chars(begin, config.data() + config.size(), value);
  return failed == std::errc{} ? std::optional(value) : std::nullopt;
}

/// FLOPs of one execution: with the matrix unit's padding, and the useful ones alone.
struct Flops {
  double padded = 0;
  double useful = 0;
  double efficiency = 1;
};

class Pricer {
 public:
  Pricer(const ir::Program& program, const network::Profile& profile, const network::Model& model)
      : program_(program), profile_(profile), model_(model), placement_(topology::row_major(model.slice())) {}

  Cost run() {
    for (const Computation& block : program_.computations) {
      if (block.executions > 0) price_block(block);
    }
    for (const auto& collective : program_.collectives) price(collective);
    add_memory();
    return std::move(cost_);
  }

 private:
  void price_block(const Computation& block) {
    Reads reads(block);
    const auto times = static_cast<double>(block.executions);
    for (const Instruction& op : block.instructions) {
      if (op.collective.valid()) continue;  // its traffic is the network's
      if (!materialises(op) && !leaves_block(op)) continue;
      const std::int64_t read = reads.of(op);
      const std::int64_t written = leaves_block(op) ? written_at_return(block, op) : op.shape->byte_size();
      const double bytes = static_cast<double>(read + written);
      working_set_ = std::max(working_set_, read + written);
      const Flops flops = flops_of(block, op);
      const double matrix = flops.padded / (profile_.peak_flops_per_micro * flops.efficiency);
      const double memory = bytes / (profile_.hbm_bandwidth.value * profile_.hbm_efficiency);
      cost_.compute += Micros(std::max(matrix, memory) * times);
      cost_.compute_floor += Micros(flops.useful / profile_.peak_flops_per_micro * times);
    }
  }

  /// Only values that the block computes element by element are written at its end; the rest already is in
  /// HBM.
  static std::int64_t written_at_return(const Computation& block, const Instruction& terminator) {
    std::int64_t bytes = 0;
    for (const auto& operand : terminator.operands) {
      const Instruction& producer = block.instructions[operand.instruction.at()];
      if (!is_source(producer)) bytes += producer.shape->byte_size();
    }
    return bytes;
  }

  Flops flops_of(const Computation& block, const Instruction& op) {
    const auto shape = [&](std::size_t i) -> const ir::Shape& {
      return *block.instructions[op.operands[i].instruction.at()].shape;
    };
    if (op.opcode == "stablehlo.dot_general" && op.operands.size() == 2) {
      const auto dims = dot_dims(op, shape(0), shape(1));
      if (!dims) {
        cost_.warnings.push_back(
            fmt::format("line {}: dot_general without readable dimension numbers", op.position.line));
        return {};
      }
      return {dims->padded_flops(matrix_unit(profile_.kind)), dims->flops(), profile_.matmul_efficiency};
    }
    if (op.opcode == "stablehlo.custom_call") {
      const auto config = op.attribute("backend_config");
      const auto flops = config ? declared(*config, "flops") : std::nullopt;
      if (flops) return {*flops, *flops, profile_.flash_efficiency};
      cost_.warnings.push_back(fmt::format(
          "line {}: a custom call declares no cost; only its HBM traffic is counted", op.position.line));
    }
    return {};
  }

  void price(const ir::Collective& collective) {
    const auto wanted = simulate::to_network(program_, collective);
    if (!wanted || collective.executions == 0) return;
    CollectiveCost entry;
    entry.kind = wanted->kind;
    entry.bytes = wanted->bytes;
    entry.groups = wanted->groups.empty() ? wanted->pairs.size() : wanted->groups.size();
    for (const auto& group : wanted->groups) entry.group_size = std::max(entry.group_size, group.size());
    entry.executions = collective.executions;
    entry.each = model_.cost(*wanted, placement_).time;
    cost_.comm += entry.each * static_cast<double>(entry.executions);
    working_set_ = std::max(working_set_, collective.operand_bytes + collective.result_bytes);
    cost_.collectives.push_back(entry);
  }

  void add_memory() {
    const Computation& entry = program_.computation(program_.entry);
    std::int64_t results = 0;
    for (const Instruction& op : entry.instructions) {
      if (op.opcode == "parameter") cost_.arguments += Bytes(op.shape->byte_size());
      if (!leaves_block(op)) continue;
      for (const auto& operand : op.operands) {
        results += entry.instructions[operand.instruction.at()].shape->byte_size();
      }
    }
    cost_.live = cost_.arguments + Bytes(results + working_set_);
  }

  const ir::Program& program_;
  const network::Profile& profile_;
  const network::Model& model_;
  topology::Placement placement_;
  Cost cost_;
  std::int64_t working_set_ = 0;
};

}  // namespace

Cost cost(const ir::Program& local, const network::Profile& profile, const network::Model& model) {
  return Pricer(local, profile, model).run();
}

}  // namespace aoizora::shard
