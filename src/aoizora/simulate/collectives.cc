#include "aoizora/simulate/collectives.h"

#include <cstdint>

#include "aoizora/base/error.h"
#include "aoizora/ir/backend_config.h"

namespace aoizora::simulate {
namespace {

std::optional<network::Kind> kind_of(ir::CollectiveKind kind) {
  switch (kind) {
    case ir::CollectiveKind::kAllGather:
      return network::Kind::kAllGather;
    case ir::CollectiveKind::kAllReduce:
      return network::Kind::kAllReduce;
    case ir::CollectiveKind::kReduceScatter:
      return network::Kind::kReduceScatter;
    case ir::CollectiveKind::kAllToAll:
    case ir::CollectiveKind::kRaggedAllToAll:
      return network::Kind::kAllToAll;
    case ir::CollectiveKind::kCollectivePermute:
      return network::Kind::kPermute;
    case ir::CollectiveKind::kCollectiveBroadcast:
      return network::Kind::kBroadcast;
    case ir::CollectiveKind::kSend:
    case ir::CollectiveKind::kRecv:
      break;
  }
  return std::nullopt;
}

/// The program counts operand and result of one device; the model wants the full array where one exists.
std::int64_t model_bytes(const ir::Collective& collective) {
  const bool gathers = collective.kind == ir::CollectiveKind::kAllGather;
  return gathers ? collective.result_bytes : collective.operand_bytes;
}

Partition partition(std::int64_t id) { return Partition(static_cast<std::int32_t>(id)); }

network::AlgorithmHint hint_of(const ir::Instruction& instruction) {
  network::AlgorithmHint hint;
  const auto config = ir::read_backend_config(instruction);
  if (!config || !config->algorithm) return hint;
  const ir::CollectiveAlgorithm& algorithm = *config->algorithm;
  hint.strategy = algorithm.strategy;
  hint.colors = static_cast<std::int32_t>(algorithm.colors.value_or(0));
  hint.phases = static_cast<std::int32_t>(algorithm.phases.value_or(0));
  if (!algorithm.cores.empty()) {
    for (const auto cores : algorithm.cores.front()) hint.cores.push_back(static_cast<std::int32_t>(cores));
  }
  hint.has_reordering_map = algorithm.has_reordering_map;
  return hint;
}

}  // namespace

std::optional<network::Collective> to_network(const ir::Program& program, const ir::Collective& collective) {
  const auto kind = kind_of(collective.kind);
  if (!kind || collective.host_transfer) return std::nullopt;
  network::Collective result;
  result.kind = *kind;
  result.bytes = Bytes(model_bytes(collective));
  for (const auto& ids : collective.groups.expanded()) {
    std::vector<Partition> group;
    group.reserve(ids.size());
    for (const auto id : ids) group.push_back(partition(id));
    result.groups.push_back(std::move(group));
  }
  for (const auto& [source, target] : collective.pairs) {
    result.pairs.emplace_back(partition(source), partition(target));
  }
  result.hint = hint_of(program.instruction(collective.at));
  return result;
}

}  // namespace aoizora::simulate
