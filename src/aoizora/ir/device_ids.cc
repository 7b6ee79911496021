#include "aoizora/ir/device_ids.h"

#include <algorithm>
#include <numeric>

#include "aoizora/ir/scanner.h"
#include "aoizora/ir/storage.h"

namespace aoizora::ir {
namespace {

bool is_permute_like(CollectiveKind kind) {
  return kind == CollectiveKind::kCollectivePermute || kind == CollectiveKind::kSend ||
         kind == CollectiveKind::kRecv;
}

std::vector<std::int64_t> range(std::int64_t count) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return ids;
}

/// Groups of replicas where every partition of a replica takes part: ids in the flattened list.
ReplicaGroups with_all_partitions(const ReplicaGroups& replicas, std::int64_t partitions) {
  ReplicaGroups::List groups;
  for (const auto& group : replicas.expanded()) {
    auto& flat = groups.emplace_back();
    for (const std::int64_t replica : group) {
      for (std::int64_t p = 0; p < partitions; ++p) flat.push_back(replica * partitions + p);
    }
  }
  return ReplicaGroups(std::move(groups));
}

void check_once(Scanner& scan, std::vector<std::int64_t> ids, const char* role) {
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    scan.fail(scan.begin(), fmt::format("device {} is the {} of two pairs", *twice, role));
  }
}

Pairs read_pairs(Scanner& scan, std::int64_t devices) {
  Pairs pairs;
  std::vector<std::int64_t> sources;
  std::vector<std::int64_t> targets;
  const auto id = [&] {
    scan.skip_space();
    const char* const at = scan.p;
    const std::int64_t value = scan.integer("a device id");
    if (value < 0 || (devices > 0 && value >= devices)) {
      scan.fail(at, fmt::format("device {} is out of range: the program has {} devices", value, devices));
    }
    return value;
  };
  scan.expect('{', "pairs `{{source,target},..}`");
  if (scan.accept('}')) return pairs;
  do {
    scan.expect('{', "'{' before a pair");
    sources.push_back(id());
    scan.expect(',', "',' between source and target");
    targets.push_back(id());
    scan.expect('}', "'}' after a pair");
    pairs.emplace_back(sources.back(), targets.back());
  } while (scan.accept(','));
  scan.expect('}', "',' or '}' after a pair");
  check_once(scan, sources, "source");
  check_once(scan, targets, "target");
  return pairs;
}

}  // namespace

Position value_position(const Attribute& attribute) {
  const auto offset = static_cast<std::uint32_t>(attribute.value.data() - attribute.key.data());
  return {attribute.position.line, attribute.position.column + offset};
}

Pairs parse_pairs(std::string_view text, std::int64_t devices, const std::string& file, Position at) {
  const std::string copy = std::string(text) + " ";
  try {
    Scanner scan(copy, file);
    Pairs pairs = read_pairs(scan, devices);
    scan.skip_space();
    if (!scan.at_end()) scan.fail(scan.p, "unexpected text after the pairs");
    return pairs;
  } catch (const UserError& error) {
    const Position inside = error.position();
    if (inside.line > 1) throw UserError(file, {at.line + inside.line - 1, inside.column}, error.message());
    throw UserError(file, {at.line, at.column + inside.column - 1}, error.message());
  } catch (const Truncated&) {
    throw UserError(file, at, "the source-target pairs are incomplete");
  }
}

std::int64_t DeviceIds::known_devices(Mode mode) const {
  if (!counts_known_) return 0;
  switch (mode) {
    case Mode::kReplicas:
    case Mode::kReplicasAllPartitions:
      return program_.num_replicas;
    case Mode::kPartitions:
      return program_.num_partitions;
    case Mode::kFlattened:
      break;
  }
  return program_.devices();
}

void DeviceIds::note_id(std::int64_t id, Mode mode) {
  std::int64_t& largest =
      mode == Mode::kPartitions || mode == Mode::kFlattened ? largest_partition_ : largest_replica_;
  largest = std::max(largest, id);
}

ReplicaGroups DeviceIds::groups(std::string_view text, Mode mode, Position at) {
  const auto [entry, fresh] = expanded_.try_emplace({text, mode});
  if (!fresh) return entry->second;
  ReplicaGroups result = parse_replica_groups(text, known_devices(mode), program_.file, at);
  if (mode == Mode::kReplicasAllPartitions && counts_known_) {
    result = with_all_partitions(result, program_.num_partitions);
  }
  for (const auto& group : result.expanded()) {
    total_ids_ += static_cast<std::int64_t>(group.size());
    for (const std::int64_t id : group) note_id(id, mode);
  }
  if (total_ids_ > kMaxIds) {
    throw UserError(program_.file, at,
                    fmt::format("the replica groups of this program name more than {} ids in all", kMaxIds));
  }
  const std::int64_t devices = known_devices(mode);
  std::int64_t named = 0;
  for (const auto& group : result.expanded()) named += static_cast<std::int64_t>(group.size());
  if (mode != Mode::kReplicasAllPartitions && devices > 0 && named < devices) {
    program_.warnings.push_back(fmt::format("{}:{}:{}: the replica groups name {} of {} devices",
                                            program_.file, at.line, at.column, named, devices));
  }
  entry->second = result;
  return result;
}

void DeviceIds::fill_pairs(Collective& collective, const Instruction& instruction, Mode mode) {
  std::string_view text;
  Position at = instruction.position;
  for (const Attribute& attribute : instruction.attributes) {
    if (attribute.key == "source_target_pairs") {
      text = attribute.value;
      at = value_position(attribute);
    } else if (attribute.key == "frontend_attributes") {
      const std::string_view inner = braced_value(attribute.value, "_xla_send_recv_source_target_pairs");
      if (inner.empty()) continue;
      text = inner;
      at = value_position(attribute);
      at.column += static_cast<std::uint32_t>(inner.data() - attribute.value.data());
    } else if (attribute.key == "is_host_transfer") {
      collective.host_transfer = attribute.value == "true";
    }
  }
  if (text.empty()) {
    if (collective.kind != CollectiveKind::kCollectivePermute) return;
    throw UserError(program_.file, instruction.position,
                    fmt::format("{} needs source_target_pairs", instruction.opcode));
  }
  collective.groups_text = text;
  collective.pairs = parse_pairs(text, known_devices(mode), program_.file, at);
  total_ids_ += static_cast<std::int64_t>(collective.pairs.size());
  for (const auto& [source, target] : collective.pairs) note_id(std::max(source, target), mode);
}

void DeviceIds::fill(Collective& collective, const Instruction& instruction) {
  bool global_ids = false;
  const Attribute* groups_attribute = nullptr;
  for (const Attribute& attribute : instruction.attributes) {
    if (attribute.key == "channel_id") {
      const std::string number = std::string(attribute.value) + " ";
      try {
        Scanner scan(number, program_.file);
        collective.channel_id = scan.integer("a channel id");
      } catch (const UserError& error) {
        throw UserError(program_.file, value_position(attribute), error.message());
      }
    } else if (attribute.key == "use_global_device_ids") {
      global_ids = attribute.value == "true";
    } else if (attribute.key == "replica_groups") {
      groups_attribute = &attribute;
    }
  }
  // A channel id of 0 or less means none (xla's printer leaves it out; older dumps print it).
  const bool channel = collective.channel_id > 0;
  const bool has_flag = collective.kind == CollectiveKind::kAllGather ||
                        collective.kind == CollectiveKind::kAllReduce ||
                        collective.kind == CollectiveKind::kReduceScatter;
  Mode mode = Mode::kReplicas;
  if (channel)
    mode = !has_flag ? Mode::kPartitions : global_ids ? Mode::kFlattened : Mode::kReplicasAllPartitions;
  collective.ids_are_partitions = mode != Mode::kReplicas;
  if (is_permute_like(collective.kind)) return fill_pairs(collective, instruction, mode);
  if (groups_attribute == nullptr) {
    collective.groups = groups("{}", mode, instruction.position);
    return;
  }
  collective.groups_text = groups_attribute->value;
  collective.groups = groups(groups_attribute->value, mode, value_position(*groups_attribute));
}

void DeviceIds::finish() {
  if (counts_known_) return;
  program_.num_partitions = std::max<std::int64_t>(1, largest_partition_ + 1);
  program_.num_replicas =
      largest_partition_ < 0 ? std::max<std::int64_t>(1, largest_replica_ + 1) : program_.num_replicas;
  if (program_.devices() > kMaxGroupIds) {
    user_error("{}: a device id of {} or more is not supported", program_.file, kMaxGroupIds);
  }
  if (program_.devices() > 1) {
    program_.warnings.push_back(fmt::format(
        "{}: the text does not say how many devices there are; {} taken from the ids in its groups",
        program_.file, program_.devices()));
  }
  const ReplicaGroups all({range(program_.devices())});
  for (Collective& collective : program_.collectives) {
    if (collective.groups.empty() && !is_permute_like(collective.kind)) collective.groups = all;
  }
}

}  // namespace aoizora::ir
