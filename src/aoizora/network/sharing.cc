#include "aoizora/network/sharing.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "aoizora/base/error.h"
#include "aoizora/network/model.h"

namespace aoizora::network {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace

FairShare::FairShare(std::span<const double> capacity) : links_(capacity.size()) {
  for (std::size_t l = 0; l < capacity.size(); ++l) {
    links_[l].capacity = capacity[l];
  }
}

void FairShare::touch(std::int32_t id) {
  LinkState& link = links_[at(id)];
  if (link.seen != epoch_) {
    link.seen = epoch_;
    component_.push_back(id);
  }
}

std::int32_t FairShare::add(std::span<const std::pair<Link, double>> route) {
  std::int32_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::int32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[at(id)];
  flow.alive = true;
  flow.rate = kUnlimited;
  flow.count = static_cast<std::int32_t>(route.size());
  if (flow.count > flow.room) {
    flow.first = static_cast<std::int32_t>(steps_.size());
    flow.room = flow.count;
    steps_.resize(steps_.size() + route.size());
  }
  for (std::int32_t i = 0; i < flow.count; ++i) {
    const auto& [link, share] = route[at(i)];
    LinkState& state = links_[link.at()];
    steps_[at(flow.first + i)] = {link.value, share};
    state.flows.push_back({id, share, 0});
    touch(link.value);
  }
  if (route.empty()) {
    unrouted_.push_back(id);
  }
  added_ = true;
  return id;
}

void FairShare::remove(std::int32_t id) {
  Flow& flow = flows_[at(id)];
  AOIZORA_CHECK(flow.alive, "flow {} was removed before", id);
  flow.alive = false;
  from_level_ = std::min(from_level_, flow.rate);
  for (std::int32_t i = 0; i < flow.count; ++i) {
    touch(steps_[at(flow.first + i)].link);
  }
  removed_.push_back(id);
}

void FairShare::clear() {
  for (LinkState& link : links_) {
    link.flows.clear();
  }
  flows_.clear();
  steps_.clear();
  free_.clear();
  removed_.clear();
  component_.clear();
  unrouted_.clear();
  from_level_ = kEverything;
  added_ = false;
  ++epoch_;
}

/// The level at which a link is full once new flows rise too: they stand at the end of its list, without a
/// rate. Old flows keep theirs up to there. Infinite where no flow is new.
double FairShare::full_level(const LinkState& link) const {
  double weight = 0;
  std::size_t i = link.flows.size();
  for (; i > 0; --i) {
    const OnLink& entry = link.flows[i - 1];
    const double rate = flows_[at(entry.flow)].rate;
    if (weight == 0 && rate != kUnlimited) {
      return kUnlimited;
    }
    if (rate != kUnlimited && (link.capacity - entry.used) >= rate * weight) {
      return (link.capacity - entry.used) / weight;
    }
    weight += entry.share;
  }
  return weight > 0 ? link.capacity / weight : kUnlimited;
}

/// From the touched links, everything connected to them through flows that are to be filled. A removed flow
/// is among those to be filled, and only dropped.
void FairShare::collect() {
  // Rates that are equal but for rounding belong to one level.
  const double from = from_level_ * (1 - 1e-9);
  for (std::size_t head = 0; head < component_.size(); ++head) {
    LinkState& link = links_[at(component_[head])];
    link.weight = 0;
    link.filling.clear();
    while (!link.flows.empty() && flows_[at(link.flows.back().flow)].rate >= from) {
      const OnLink entry = link.flows.back();
      link.flows.pop_back();
      Flow& flow = flows_[at(entry.flow)];
      if (!flow.alive) {
        continue;
      }
      if (flow.seen != epoch_) {
        flow.seen = epoch_;
        flow.rising = true;
        changed_.push_back(entry.flow);
        for (std::int32_t i = 0; i < flow.count; ++i) {
          touch(steps_[at(flow.first + i)].link);
        }
      }
      link.weight += entry.share;
      link.filling.push_back(entry.flow);
    }
    link.rising = static_cast<std::int32_t>(link.filling.size());
  }
}

void FairShare::fix(std::int32_t id, double level) {
  Flow& flow = flows_[at(id)];
  flow.rate = level;
  flow.rising = false;
  for (std::int32_t i = 0; i < flow.count; ++i) {
    const Step& step = steps_[at(flow.first + i)];
    LinkState& link = links_[at(step.link)];
    const double used = link.flows.empty() ? 0.0 : link.flows.back().used;
    link.flows.push_back({id, step.share, used + level * step.share});
    link.weight -= step.share;
    --link.rising;
  }
}

void FairShare::fill() {
  heap_.clear();
  const auto level_of = [](const LinkState& link) {
    const double used = link.flows.empty() ? 0.0 : link.flows.back().used;
    return std::max(link.capacity - used, 0.0) / link.weight;
  };
  for (const std::int32_t l : component_) {
    if (links_[at(l)].rising > 0) {
      heap_.emplace_back(level_of(links_[at(l)]), l);
    }
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [stale, l] = heap_.back();
    heap_.pop_back();
    LinkState& link = links_[at(l)];
    if (link.rising == 0) {
      continue;
    }
    const double level = level_of(link);
    if (level > stale && !heap_.empty() && level > heap_.front().first) {
      heap_.emplace_back(level, l);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      continue;
    }
    for (const std::int32_t id : link.filling) {
      if (flows_[at(id)].rising) {
        fix(id, level);
      }
    }
  }
}

std::span<const std::int32_t> FairShare::update() {
  changed_.clear();
  if (added_) {
    for (const std::int32_t link : component_) {
      from_level_ = std::min(from_level_, full_level(links_[at(link)]));
    }
    added_ = false;
  }
  collect();
  fill();
  changed_.insert(changed_.end(), unrouted_.begin(), unrouted_.end());
  unrouted_.clear();
  free_.insert(free_.end(), removed_.begin(), removed_.end());
  removed_.clear();
  component_.clear();
  from_level_ = kEverything;
  ++epoch_;
  return changed_;
}

std::vector<double> max_min_rates(std::span<const double> capacity,
                                  std::span<const std::vector<std::pair<Link, double>>> routes) {
  FairShare share(capacity);
  for (const auto& route : routes) {
    share.add(route);
  }
  share.update();
  std::vector<double> rates;
  for (std::size_t f = 0; f < routes.size(); ++f) {
    rates.push_back(share.rate(static_cast<std::int32_t>(f)));
  }
  return rates;
}

}  // namespace aoizora::network
