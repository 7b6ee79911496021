#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "aoizora/base/error.h"

namespace aoizora::ir {

/// Device groups of a collective, from any of HLO's forms: list `{{0,1},{2,3}}`, iota `[4,4]<=[4,4]T(1,0)`,
/// mesh `mesh['a'=2,'b'=4] {'a'}`, empty (all devices in one group). Kept as written and expanded on demand.
class ReplicaGroups {
 public:
  ReplicaGroups() = default;
  explicit ReplicaGroups(std::vector<std::vector<std::int64_t>> groups) : groups_(std::move(groups)) {}

  const std::vector<std::vector<std::int64_t>>& expanded() const { return groups_; }
  std::size_t count() const { return groups_.size(); }
  bool empty() const { return groups_.empty(); }

 private:
  std::vector<std::vector<std::int64_t>> groups_;
};

/// Parses one `replica_groups` value. `devices` is the number of ids there may be (an empty form means one
/// group of all). Throws UserError{file, at} on overlap, ids out of range, products that do not fit,
/// unknown mesh axes.
ReplicaGroups parse_replica_groups(std::string_view text, std::int64_t devices, const std::string& file,
                                   Position at);

}  // namespace aoizora::ir
