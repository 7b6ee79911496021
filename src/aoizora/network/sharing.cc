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

void FairShare::touch(std::int32_t link) { touched_.push_back(link); }

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
  flow.route.clear();
  for (const auto& [link, share] : route) {
    std::vector<OnLink>& list = links_[link.at()].flows;
    flow.route.push_back({link.value, static_cast<std::int32_t>(list.size()), share});
    list.push_back({id, static_cast<std::int32_t>(flow.route.size()) - 1});
    touch(link.value);
  }
  if (route.empty()) {
    unrouted_.push_back(id);
  }
  return id;
}

void FairShare::remove(std::int32_t id) {
  Flow& flow = flows_[at(id)];
  AOIZORA_CHECK(flow.alive, "flow {} was removed before", id);
  flow.alive = false;
  // The last entry of each list takes the place of the one that goes.
  for (const Step& step : flow.route) {
    std::vector<OnLink>& list = links_[at(step.link)].flows;
    const OnLink last = list.back();
    list[at(step.position)] = last;
    flows_[at(last.flow)].route[at(last.step)].position = step.position;
    list.pop_back();
    touch(step.link);
  }
  free_.push_back(id);
}

void FairShare::clear() {
  for (std::size_t id = 0; id < flows_.size(); ++id) {
    if (flows_[id].alive) {
      remove(static_cast<std::int32_t>(id));
    }
  }
  touched_.clear();
  unrouted_.clear();
}

/// Everything connected to a touched link.
void FairShare::collect() {
  ++epoch_;
  component_.clear();
  const auto visit = [&](std::int32_t link) {
    if (links_[at(link)].seen != epoch_) {
      links_[at(link)].seen = epoch_;
      component_.push_back(link);
    }
  };
  for (const std::int32_t link : touched_) {
    visit(link);
  }
  touched_.clear();
  for (std::size_t head = 0; head < component_.size(); ++head) {
    LinkState& link = links_[at(component_[head])];
    link.left = link.capacity;
    link.weight = 0;
    link.rising = static_cast<std::int32_t>(link.flows.size());
    for (const OnLink& entry : link.flows) {
      Flow& flow = flows_[at(entry.flow)];
      link.weight += flow.route[at(entry.step)].share;
      if (flow.seen != epoch_) {
        flow.seen = epoch_;
        flow.fixed = false;
        changed_.push_back(entry.flow);
        for (const Step& step : flow.route) {
          visit(step.link);
        }
      }
    }
  }
}

void FairShare::fix(std::int32_t id, double level) {
  Flow& flow = flows_[at(id)];
  flow.rate = level;
  flow.fixed = true;
  for (const Step& step : flow.route) {
    LinkState& link = links_[at(step.link)];
    link.left -= level * step.share;
    link.weight -= step.share;
    --link.rising;
  }
}

void FairShare::fill() {
  heap_.clear();
  const auto level_of = [](const LinkState& link) { return std::max(link.left, 0.0) / link.weight; };
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
    for (const OnLink& entry : link.flows) {
      if (!flows_[at(entry.flow)].fixed) {
        fix(entry.flow, level);
      }
    }
  }
}

std::span<const std::int32_t> FairShare::update() {
  changed_.clear();
  collect();
  fill();
  changed_.insert(changed_.end(), unrouted_.begin(), unrouted_.end());
  unrouted_.clear();
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
