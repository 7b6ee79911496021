#include "aoizora/ir/stablehlo_collectives.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "aoizora/ir/device_ids.h"
#include "aoizora/ir/mlir_text.h"
#include "aoizora/ir/storage.h"

namespace aoizora::ir {
namespace {

using Kind = CollectiveKind;

std::optional<Kind> kind_of(std::string_view opcode) {
  for (const std::string_view dialect : {"stablehlo.", "sdy."}) {
    if (!opcode.starts_with(dialect)) continue;
    opcode.remove_prefix(dialect.size());
    if (opcode == "all_gather") return Kind::kAllGather;
    if (opcode == "all_reduce") return Kind::kAllReduce;
    if (opcode == "reduce_scatter") return Kind::kReduceScatter;
    if (opcode == "all_to_all") return Kind::kAllToAll;
    if (opcode == "collective_permute") return Kind::kCollectivePermute;
    if (opcode == "collective_broadcast") return Kind::kCollectiveBroadcast;
    if (opcode == "ragged_all_to_all") return Kind::kRaggedAllToAll;
    if (opcode == "send") return Kind::kSend;
    if (opcode == "recv") return Kind::kRecv;
  }
  return std::nullopt;
}

std::vector<std::int64_t> range(std::int64_t count) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return ids;
}

const Attribute* find(const Instruction& op, std::string_view key) {
  for (const Attribute& attribute : op.attributes) {
    if (attribute.key == key) return &attribute;
  }
  return nullptr;
}

/// Index of the shard that the device at each mesh position holds, for one tensor dimension.
std::vector<std::int64_t> shard_of_positions(const DeviceMesh& mesh, const std::vector<AxisRef>& refs) {
  std::vector<std::int64_t> shard(static_cast<std::size_t>(mesh.positions()), 0);
  std::vector<std::int64_t> stride(mesh.axes.size(), 1);
  for (std::size_t i = mesh.axes.size(); i-- > 1;) stride[i - 1] = stride[i] * mesh.axes[i].size;
  for (std::size_t position = 0; position < shard.size(); ++position) {
    for (const AxisRef& ref : refs) {
      const MeshAxis& axis = mesh.axes[ref.axis];
      const std::int64_t coordinate = static_cast<std::int64_t>(position) / stride[ref.axis] % axis.size;
      const std::int64_t after = axis.size / (ref.pre * ref.size);
      shard[position] = shard[position] * ref.size + coordinate / after % ref.size;
    }
  }
  return shard;
}

class Finder {
 public:
  Finder(Program& program, const Meshes& meshes, const std::map<std::int32_t, std::string_view>& arguments,
         bool counts_known)
      : program_(program), meshes_(meshes), arguments_(arguments), counts_known_(counts_known) {}

  void run() {
    for (std::size_t c = 0; c < program_.computations.size(); ++c) {
      auto& instructions = program_.computations[c].instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        const auto kind = kind_of(instructions[i].opcode);
        if (!kind) continue;
        const InstructionRef at{ComputationId(static_cast<std::int32_t>(c)),
                                InstructionId(static_cast<std::int32_t>(i))};
        Collective collective =
            instructions[i].opcode.starts_with("sdy.") ? sdy(*kind, at) : stablehlo(*kind, at);
        collective.executions = program_.computations[c].executions;
        instructions[i].collective = CollectiveId(static_cast<std::int32_t>(program_.collectives.size()));
        program_.collectives.push_back(std::move(collective));
      }
    }
    finish();
  }

 private:
  [[noreturn]] void fail(Position at, const std::string& message) const {
    throw UserError(program_.file, at, message);
  }

  Collective start(Kind kind, InstructionRef at) const {
    Collective collective;
    collective.kind = kind;
    collective.at = collective.start = collective.done = at;
    return collective;
  }

  const Shape& operand_shape(InstructionRef at, const Operand& operand) const {
    const Shape& shape = *program_.instruction({at.computation, operand.instruction}).shape;
    return operand.tuple_index < 0 ? shape : shape.tuple[static_cast<std::size_t>(operand.tuple_index)];
  }

  // ---- StableHLO: local types, groups as ids or mesh axes ----

  Collective stablehlo(Kind kind, InstructionRef at) {
    const Instruction& op = program_.instruction(at);
    Collective collective = start(kind, at);
    const bool first_only = kind == Kind::kRaggedAllToAll;
    for (const Operand& operand : op.operands) {
      const bool overflow = __builtin_add_overflow(
          collective.operand_bytes, operand_shape(at, operand).byte_size(), &collective.operand_bytes);
      if (overflow) fail(op.position, "the operands have more than 2^63 bytes");
      if (first_only) break;
    }
    if (kind == Kind::kRecv) collective.operand_bytes = 0;
    collective.result_bytes = kind == Kind::kSend ? 0 : op.shape->byte_size();
    if (const Attribute* const channel = find(op, "channel_handle")) {
      const std::string handle =
          std::string(field(inner_fields(channel->value, program_.file), "handle")) + " ";
      Scanner number(handle, program_.file);
      if (Scanner::is_digit(*number.p)) collective.channel_id = number.integer("a channel id");
    }
    if (const Attribute* const host = find(op, "is_host_transfer")) {
      collective.host_transfer = host->value.empty() || host->value.starts_with("true");
    }
    const bool has_flag =
        kind == Kind::kAllGather || kind == Kind::kAllReduce || kind == Kind::kReduceScatter;
    const bool channel = collective.channel_id > 0;
    const bool global = find(op, "use_global_device_ids") != nullptr;
    collective.ids_are_partitions = channel;
    const std::int64_t known = !counts_known_       ? 0
                               : !channel           ? program_.num_replicas
                               : has_flag && global ? program_.devices()
                               : has_flag           ? program_.num_replicas
                                                    : program_.num_partitions;
    if (const Attribute* const pairs = find(op, "source_target_pairs")) {
      read_pairs(collective, *pairs, known);
    } else if (kind == Kind::kCollectivePermute) {
      fail(op.position, "collective_permute needs source_target_pairs");
    }
    if (const Attribute* const groups = find(op, "replica_groups")) {
      read_groups(collective, *groups, known);
      if (channel && has_flag && !global) all_partitions(collective);
    }
    return collective;
  }

  void read_pairs(Collective& collective, const Attribute& attribute, std::int64_t known) {
    collective.groups_text = attribute.value;
    const Position at = attribute.position;
    const DenseIntegers dense = parse_dense(attribute.value, 2 * kMaxGroupIds, program_.file, at);
    if (!dense.values.empty() && (dense.shape.size() != 2 || dense.shape[1] != 2)) {
      fail(at, "source_target_pairs must have two columns");
    }
    std::string text = "{";
    for (std::size_t i = 0; i + 1 < dense.values.size(); i += 2) {
      text += fmt::format("{}{{{},{}}}", i == 0 ? "" : ",", dense.values[i], dense.values[i + 1]);
    }
    // One place checks pairs: the reader of HLO's form.
    collective.pairs = parse_pairs(text + "}", known, program_.file, at);
    for (const auto& [source, target] : collective.pairs) note(std::max(source, target));
  }

  void read_groups(Collective& collective, const Attribute& attribute, std::int64_t known) {
    collective.groups_text = attribute.value;
    const auto [entry, fresh] = expanded_.try_emplace({attribute.value, known});
    if (fresh) {
      entry->second = attribute.value.starts_with("#stablehlo.replica_group_mesh_axes")
                          ? mesh_groups(attribute)
                          : dense_groups(attribute);
      const std::string problem = groups_problem(entry->second.expanded(), known);
      if (!problem.empty()) fail(attribute.position, problem);
      for (const auto& group : entry->second.expanded()) {
        total_ids_ += static_cast<std::int64_t>(group.size());
        for (const std::int64_t id : group) note(id);
      }
      constexpr std::int64_t kMaxIds = std::int64_t{1} << 25;
      if (total_ids_ > kMaxIds) {
        fail(attribute.position, fmt::format("the replica groups name more than {} ids in all", kMaxIds));
      }
      if (entry->second.empty() && known > 0) entry->second = ReplicaGroups({range(known)});
    }
    collective.groups = entry->second;
  }

  /// Rows of the matrix; -1 fills rows of unequal length.
  ReplicaGroups dense_groups(const Attribute& attribute) {
    const DenseIntegers dense = parse_dense(attribute.value, kMaxGroupIds, program_.file, attribute.position);
    ReplicaGroups::List groups;
    if (dense.values.empty()) return ReplicaGroups(groups);
    if (dense.shape.size() != 2) fail(attribute.position, "replica_groups must be a matrix");
    const auto width = static_cast<std::size_t>(dense.shape[1]);
    for (std::size_t row = 0; row < dense.values.size(); row += width) {
      auto& group = groups.emplace_back();
      for (std::size_t i = row; i < row + width; ++i) {
        if (dense.values[i] != -1) group.push_back(dense.values[i]);
      }
      if (group.empty()) fail(attribute.position, "a replica group must not be empty");
    }
    return ReplicaGroups(std::move(groups));
  }

  /// `#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>`.
  ReplicaGroups mesh_groups(const Attribute& attribute) {
    const auto fields = inner_fields(attribute.value, program_.file);
    const DeviceMesh mesh = mesh_named(field(fields, "mesh"), attribute.position);
    return ReplicaGroups(expand_mesh_groups(
        mesh, parse_axis_refs(field(fields, "axes"), mesh, program_.file, attribute.position)));
  }

  DeviceMesh mesh_named(std::string_view text, Position at) const {
    const std::string_view symbol = symbol_name(text);
    if (symbol.empty()) return parse_sdy_mesh(text, program_.file, at);
    const auto found = meshes_.find(symbol);
    if (found == meshes_.end()) fail(at, fmt::format("no mesh is called @{}", symbol));
    return found->second;
  }

  void all_partitions(Collective& collective) const {
    ReplicaGroups::List groups;
    for (const auto& group : collective.groups.expanded()) {
      auto& flat = groups.emplace_back();
      for (const std::int64_t replica : group) {
        for (std::int64_t p = 0; p < program_.num_partitions; ++p) {
          flat.push_back(replica * program_.num_partitions + p);
        }
      }
    }
    collective.groups = ReplicaGroups(std::move(groups));
  }

  // ---- Shardy: global types, groups by the axes that move ----

  Collective sdy(Kind kind, InstructionRef at) {
    const Instruction& op = program_.instruction(at);
    Collective collective = start(kind, at);
    const Attribute* const out = find(op, "out_sharding");
    if (out == nullptr) fail(op.position, fmt::format("{} needs out_sharding", op.opcode));
    const Sharding sharding = parse_sharding(out->value);
    const DeviceMesh mesh = mesh_of(sharding, out->position);
    constexpr std::string_view kAxes[] = {"gathering_axes", "reduction_axes", "reduce_scatter_axes",
                                          "params"};
    const Attribute* moved = nullptr;
    for (const std::string_view key : kAxes) moved = moved == nullptr ? find(op, key) : moved;
    std::vector<AxisRef> refs;
    if (moved != nullptr) {
      collective.groups_text = moved->value;
      refs = parse_axis_refs(moved->value, mesh, program_.file, moved->position);
    }
    collective.result_bytes = local_bytes(*op.shape, sharding, mesh, out->position);
    collective.operand_bytes = collective.result_bytes;
    const std::int64_t group = product_of(refs);
    if (kind == Kind::kAllGather) collective.operand_bytes = collective.result_bytes / group;
    if (kind == Kind::kReduceScatter) {
      if (__builtin_mul_overflow(collective.result_bytes, group, &collective.operand_bytes)) {
        fail(op.position, "the operand has more than 2^63 bytes");
      }
    }
    if (kind == Kind::kCollectivePermute) {
      collective.groups_text = out->value;
      permute(collective, sharding, mesh, out->position);
    } else if (moved == nullptr) {
      fail(op.position, fmt::format("{} does not say along which axes", op.opcode));
    } else {
      collective.groups = ReplicaGroups(expand_mesh_groups(mesh, refs));
      check_range(collective.groups, moved->position);
    }
    return collective;
  }

  void check_range(const ReplicaGroups& groups, Position at) {
    const std::string problem = groups_problem(groups.expanded(), counts_known_ ? program_.devices() : 0);
    if (!problem.empty()) fail(at, problem);
    total_ids_ += static_cast<std::int64_t>(groups.count());
    for (const auto& group : groups.expanded()) {
      for (const std::int64_t id : group) note(id);
    }
  }

  DeviceMesh mesh_of(const Sharding& sharding, Position at) const {
    if (!sharding.mesh_text.empty()) return parse_sdy_mesh(sharding.mesh_text, program_.file, at);
    if (sharding.mesh.empty()) fail(at, "expected a sharding `#sdy.sharding<@mesh, [..]>`");
    const auto found = meshes_.find(sharding.mesh);
    if (found == meshes_.end()) fail(at, fmt::format("no mesh is called @{}", sharding.mesh));
    return found->second;
  }

  std::vector<std::vector<AxisRef>> dimension_refs(const Sharding& sharding, const DeviceMesh& mesh,
                                                   Position at) const {
    std::vector<std::vector<AxisRef>> dims;
    for (const std::string_view dim : sharding.dims) {
      dims.push_back(parse_axis_refs(dim, mesh, program_.file, at));
    }
    return dims;
  }

  /// Bytes of one device's part: each dimension divided, rounded up, by its axes.
  std::int64_t local_bytes(const Shape& global, const Sharding& sharding, const DeviceMesh& mesh,
                           Position at) const {
    Shape local = global;
    const auto dims = dimension_refs(sharding, mesh, at);
    if (dims.size() != local.dims.size()) {
      fail(at, fmt::format("a sharding of {} dimensions for a tensor of {}", dims.size(), local.dims.size()));
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t parts = product_of(dims[i]);
      if (local.dims[i] > 0) local.dims[i] = (local.dims[i] - 1) / parts + 1;
    }
    return local.byte_size();
  }

  /// Who holds after the permute what whom held before: devices with equal shards are matched in mesh order.
  void permute(Collective& collective, const Sharding& out, const DeviceMesh& mesh, Position at) {
    const std::string_view in_text = operand_sharding(collective.at);
    const Sharding in = parse_sharding(in_text);
    if (in.dims.size() != out.dims.size()) {
      program_.warnings.push_back(
          fmt::format("{}:{}:{}: the operand's sharding is not in the text; the permute's "
                      "pairs are unknown",
                      program_.file, at.line, at.column));
      return;
    }
    const auto before = dimension_refs(in, mesh, at);
    const auto after = dimension_refs(out, mesh, at);
    const auto count = static_cast<std::size_t>(mesh.positions());
    std::vector<std::vector<std::int64_t>> held(count);
    std::vector<std::vector<std::int64_t>> wanted(count);
    for (std::size_t dim = 0; dim < before.size(); ++dim) {
      const auto held_shard = shard_of_positions(mesh, before[dim]);
      const auto wanted_shard = shard_of_positions(mesh, after[dim]);
      for (std::size_t i = 0; i < count; ++i) {
        held[i].push_back(held_shard[i]);
        wanted[i].push_back(wanted_shard[i]);
      }
    }
    std::map<std::vector<std::int64_t>, std::vector<std::size_t>> holders;
    for (std::size_t i = 0; i < count; ++i) holders[held[i]].push_back(i);
    std::map<std::vector<std::int64_t>, std::size_t> next;
    for (std::size_t target = 0; target < count; ++target) {
      const auto& sources = holders[wanted[target]];
      const std::size_t index = next[wanted[target]]++;
      if (index >= sources.size()) fail(at, "the permute's shardings divide the tensor differently");
      collective.pairs.emplace_back(id_at(mesh, sources[index]), id_at(mesh, target));
    }
    std::sort(collective.pairs.begin(), collective.pairs.end());
  }

  static std::int64_t id_at(const DeviceMesh& mesh, std::size_t position) {
    return mesh.device_ids.empty() ? static_cast<std::int64_t>(position) : mesh.device_ids[position];
  }

  /// The sharding of the first operand: its producer's result, or the function's argument.
  std::string_view operand_sharding(InstructionRef at) const {
    const Instruction& op = program_.instruction(at);
    if (op.operands.empty()) return {};
    const Instruction& producer = program_.instruction({at.computation, op.operands[0].instruction});
    if (producer.opcode != "parameter") {
      for (const std::string_view key : {"out_sharding", "sdy.sharding", "sharding"}) {
        if (const Attribute* const found = find(producer, key)) return found->value;
      }
      return {};
    }
    const auto attributes = arguments_.find(at.computation.value);
    if (attributes == arguments_.end()) return {};
    const std::string_view text = attributes->second;
    if (text.size() < 2) return {};
    const std::size_t number = op.operands[0].instruction.at();
    // arg_attrs = [{..}, {..}]: the entry of that number.
    Scanner scanner(text.substr(1), program_.file, CommentStyle::kMlir);
    for (std::size_t i = 0; *scanner.p == '{' || scanner.accept(','); ++i) {
      scanner.skip_space();
      if (*scanner.p != '{') return {};
      const char* const open = scanner.p;
      skip_mlir_brackets(scanner);
      scanner.skip_space();
      if (i < number) continue;
      const std::string_view entry(open, static_cast<std::size_t>(scanner.p - open));
      const std::size_t found = entry.find("#sdy.sharding<");
      return found == std::string_view::npos ? std::string_view() : entry.substr(found);
    }
    return {};
  }

  void note(std::int64_t id) { largest_id_ = std::max(largest_id_, id); }

  /// Where the text gives no device count, the ids do.
  void finish() {
    if (counts_known_) return;
    program_.num_partitions = std::max<std::int64_t>(1, largest_id_ + 1);
    if (program_.num_partitions > kMaxGroupIds) {
      user_error("{}: a device id of {} or more is not supported", program_.file, kMaxGroupIds);
    }
    const ReplicaGroups all({range(program_.num_partitions)});
    for (Collective& collective : program_.collectives) {
      const bool pairs = collective.kind == Kind::kCollectivePermute || collective.kind == Kind::kSend ||
                         collective.kind == Kind::kRecv;
      if (collective.groups.empty() && !pairs) collective.groups = all;
    }
  }

  Program& program_;
  const Meshes& meshes_;
  const std::map<std::int32_t, std::string_view>& arguments_;
  bool counts_known_;
  std::map<std::pair<std::string_view, std::int64_t>, ReplicaGroups> expanded_;
  std::int64_t total_ids_ = 0;
  std::int64_t largest_id_ = -1;
};

}  // namespace

void find_stablehlo_collectives(Program& program, const Meshes& meshes,
                                const std::map<std::int32_t, std::string_view>& argument_attributes,
                                bool counts_known) {
  Finder(program, meshes, argument_attributes, counts_known).run();
}

}  // namespace aoizora::ir
