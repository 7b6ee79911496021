#include <algorithm>
#include <limits>

#include "aoizora/network/model.h"

namespace aoizora::network {

std::vector<double> max_min_rates(std::span<const double> capacity,
                                  std::span<const std::vector<std::pair<Link, double>>> routes) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  std::vector<double> rates(routes.size(), kUnlimited);
  std::vector<std::vector<std::size_t>> flows_on(capacity.size());
  std::vector<double> left(capacity.begin(), capacity.end());
  std::vector<double> weight(capacity.size(), 0);
  std::vector<std::size_t> open(capacity.size(), 0);  // flows without a rate yet, counted, not summed
  for (std::size_t f = 0; f < routes.size(); ++f) {
    for (const auto& [link, share] : routes[f]) {
      flows_on[link.at()].push_back(f);
      weight[link.at()] += share;
      ++open[link.at()];
    }
  }
  std::vector<std::size_t> used;
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    if (open[l] > 0) {
      used.push_back(l);
    }
  }
  while (!used.empty()) {
    // All flows without a rate rise together until the first link is full.
    double level = kUnlimited;
    std::size_t full = 0;
    for (const std::size_t l : used) {
      const double at = std::max(left[l], 0.0) / weight[l];
      if (at < level) {
        level = at;
        full = l;
      }
    }
    for (const std::size_t f : flows_on[full]) {
      if (rates[f] != kUnlimited) {
        continue;
      }
      rates[f] = level;
      for (const auto& [link, share] : routes[f]) {
        left[link.at()] -= level * share;
        weight[link.at()] -= share;
        --open[link.at()];
      }
    }
    open[full] = 0;
    std::erase_if(used, [&](std::size_t l) { return open[l] == 0; });
  }
  return rates;
}

}  // namespace aoizora::network
