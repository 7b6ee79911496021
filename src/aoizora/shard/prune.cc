#include "aoizora/shard/prune.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace aoizora::shard {
namespace {

double gib(Bytes bytes) { return static_cast<double>(bytes.value) / (1 << 30); }

/// Better or equal in every respect, and better in one.
bool dominates(const Cost& a, const Cost& b) {
  const bool no_worse = a.compute <= b.compute && a.comm <= b.comm && a.live <= b.live;
  return no_worse && (a.compute < b.compute || a.comm < b.comm || a.live < b.live);
}

}  // namespace

std::vector<Verdict> prune(const std::vector<Cost>& costs, const std::vector<std::string>& ids,
                           const network::Profile& profile, std::size_t survivors) {
  AOIZORA_CHECK(costs.size() == ids.size(), "{} costs, {} ids", costs.size(), ids.size());
  std::vector<Verdict> verdicts(costs.size());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].live > profile.hbm_capacity) {
      verdicts[i].reason = fmt::format("does not fit HBM: needs {:.2f} GiB a chip, has {:.2f} GiB",
                                       gib(costs[i].live), gib(profile.hbm_capacity));
    } else {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a].estimate() < costs[b].estimate(); });

  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::size_t i = order[rank];
    if (rank < survivors) {
      verdicts[i] = {true, fmt::format("rank {} of {} before compiling", rank + 1, order.size())};
      continue;
    }
    const Micros best = costs[order.front()].estimate();
    const auto better = std::find_if(order.begin(), order.end(),
                                     [&](std::size_t other) { return dominates(costs[other], costs[i]); });
    if (costs[i].compute_floor > best) {
      verdicts[i].reason = fmt::format(
          "slower than bound: its compute alone takes {:.1f} ms at peak, the best estimate is {:.1f} ms",
          costs[i].compute_floor.value / 1e3, best.value / 1e3);
    } else if (better != order.end()) {
      verdicts[i].reason = fmt::format("dominated by {} in compute, communication and memory", ids[*better]);
    } else {
      verdicts[i].reason = fmt::format("estimate rank {} of {}: {:.2f} x the best", rank + 1, order.size(),
                                       costs[i].estimate() / best);
    }
  }
  return verdicts;
}

}  // namespace aoizora::shard
