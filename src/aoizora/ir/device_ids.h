#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "aoizora/ir/program.h"

/// Which devices a collective's attributes name (openxla.org/xla/operation_semantics; xla's
/// GetCollectiveOpGroupMode).
namespace aoizora::ir {

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Place of an attribute's value.
Position value_position(const Attribute& attribute);

/// `{{0,1},{1,2}}`; each device is at most once a source and once a target, ids below `devices` (0: unknown).
Pairs parse_pairs(std::string_view text, std::int64_t devices, const std::string& file, Position at);

/// Expands the groups of a program's collectives; equal texts are expanded once, and all of them together
/// name at most kMaxIds ids.
class DeviceIds {
 public:
  DeviceIds(Program& program, bool counts_known) : program_(program), counts_known_(counts_known) {}

  /// Fills groups, groups_text, pairs, channel_id and ids_are_partitions from the instruction's attributes.
  void fill(Collective& collective, const Instruction& instruction);
  /// Called when all are filled: takes the device count from the ids where the text does not give it, and
  /// warns about devices that no group names.
  void finish();

 private:
  static constexpr std::int64_t kMaxIds = std::int64_t{1} << 25;

  enum class Mode : std::uint8_t { kReplicas, kPartitions, kFlattened, kReplicasAllPartitions };

  std::int64_t known_devices(Mode mode) const;
  ReplicaGroups groups(std::string_view text, Mode mode, Position at);
  void fill_pairs(Collective& collective, const Instruction& instruction, Mode mode);
  void note_id(std::int64_t id, Mode mode);

  Program& program_;
  bool counts_known_;
  std::map<std::pair<std::string_view, Mode>, ReplicaGroups> expanded_;
  std::int64_t total_ids_ = 0;
  std::int64_t largest_partition_ = -1;
  std::int64_t largest_replica_ = -1;
};

}  // namespace aoizora::ir
