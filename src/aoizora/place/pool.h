#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "aoizora/base/cancel.h"
#include "aoizora/place/evaluator.h"
#include "aoizora/place/families.h"
#include "aoizora/place/lower_bound.h"
#include "aoizora/place/search.h"

namespace aoizora::place {

/// Names of placements that no family has.
inline constexpr const char* kSearchedName = "searched";
inline constexpr const char* kRandomName = "random";

/// A placement with its fast score.
struct Entry {
  std::string name;
  topology::Placement placement;
  double score = 0;   // µs, lock-step
  double volume = 0;  // µs of one link
  std::uint64_t signature = 0;
};

/// Counts successive entries of equal score and volume.
class Plateau {
 public:
  explicit Plateau(std::size_t room) : room_(room) {}
  /// True when as many as there is room for came before, without another between.
  bool full(const Entry& entry);

 private:
  std::size_t room_;
  double score_ = -1, volume_ = -1;
  std::size_t met_ = 0;
};
inline constexpr std::size_t kPlateaus = 8;  // that a list has room for, at least

/// What the fast search of one problem found.
struct Pool {
  std::vector<Entry> entries;  // best first: score, volume, then the order they were tried in; distinct
  Entry worst;
  std::int64_t evaluated = 0;
};

/// Step one of the search: scores `given` and the families, then climbs from the best of them and from random
/// placements until the budget of evaluations is spent or the bound is reached. The same for any number of
/// workers: tasks have their own seed and budget, and results are merged in task order. Keeps at most `keep`
/// entries. Ends early when rounds of climbs find nothing better, unless `until` is given: then at that time,
/// between rounds.
Pool fast_search(const Problem& problem, const LowerBound& bound, const std::vector<Candidate>& given,
                 std::int64_t evaluations, std::uint64_t seed, unsigned workers, std::size_t keep,
                 const Cancel& cancel,
                 std::optional<std::chrono::steady_clock::time_point> until = std::nullopt);

}  // namespace aoizora::place
