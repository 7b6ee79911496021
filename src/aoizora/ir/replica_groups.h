#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/error.h"

namespace aoizora::ir {

/// Device groups of a collective, from any of HLO's forms: list `{{0,1},{2,3}}`, iota `[4,4]<=[4,4]T(1,0)`,
/// mesh `mesh['a'=2,'b'=4] {'a'}`, empty (all devices in one group). Copies share one expansion, so that a
/// program whose thousand collectives use the same groups holds them once.
class ReplicaGroups {
 public:
  using List = std::vector<std::vector<std::int64_t>>;

  ReplicaGroups() = default;
  explicit ReplicaGroups(List groups) : groups_(std::make_shared<const List>(std::move(groups))) {}

  const List& expanded() const {
    static const List none;
    return groups_ ? *groups_ : none;
  }
  std::size_t count() const { return expanded().size(); }
  bool empty() const { return expanded().empty(); }

 private:
  std::shared_ptr<const List> groups_;
};

/// The most ids one `replica_groups` value may name, whatever the device count: a line of text must not be
/// able to ask for gigabytes.
inline constexpr std::int64_t kMaxGroupIds = std::int64_t{1} << 22;

/// Why these are no groups (an id twice, out of range where `devices` > 0, too many); empty when they are.
std::string groups_problem(const ReplicaGroups::List& groups, std::int64_t devices);

/// Parses one `replica_groups` value. `devices` is the number of ids there may be (an empty form means one
/// group of all); 0 when the text does not say how many there are, which skips the range check. Throws
/// UserError{file, at} on overlap, ids out of range, products that do not fit, unknown mesh axes.
ReplicaGroups parse_replica_groups(std::string_view text, std::int64_t devices, const std::string& file,
                                   Position at);

}  // namespace aoizora::ir
