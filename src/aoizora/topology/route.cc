#include "aoizora/topology/route.h"

#include <algorithm>
#include <cstdlib>

#include "aoizora/base/error.h"

namespace aoizora::topology {
namespace {

std::int32_t length(const std::array<std::int32_t, kMaxDims>& offset) {
  return std::abs(offset[0]) + std::abs(offset[1]) + std::abs(offset[2]);
}

}  // namespace

Router::Router(const Slice& slice, RouteRule rule) : slice_(&slice), rule_(rule) {
  if (slice.is_graph()) {
    build_graph_tables();
  }
}

Router::Offsets Router::minimal_offsets(Chip from, Chip to) const {
  const auto a = slice_->grid(from);
  const auto b = slice_->grid(to);
  Offset delta{};
  for (std::size_t d = 0; d < kMaxDims; ++d) {
    delta[d] = b[d] - a[d];
  }
  if (slice_->twisted()) {
    return twisted_offsets(delta);
  }
  Offsets offsets;
  offsets.list[0] = delta;
  offsets.count = 1;
  for (std::size_t d = 0; d < slice_->dims().size(); ++d) {
    if (!slice_->wraps(static_cast<std::int32_t>(d))) {
      continue;
    }
    const std::int32_t size = slice_->dims()[d];
    const std::int32_t forward = ((delta[d] % size) + size) % size;
    const bool tie = 2 * forward == size;
    const std::size_t before = offsets.count;
    for (std::size_t i = 0; i < before; ++i) {
      offsets.list[i][d] = 2 * forward <= size ? forward : forward - size;
      if (tie && rule_.split_ties) {
        offsets.list[offsets.count] = offsets.list[i];
        offsets.list[offsets.count++][d] = -forward;
      }
    }
  }
  return offsets;
}

// The images of the target are delta plus whole numbers of wrap vectors. Twice around each way is more than
// a minimal route ever takes, since |delta| < size.
Router::Offsets Router::twisted_offsets(const Offset& delta) const {
  Offsets best;
  std::int32_t best_length = 1 << 30;
  for (std::int32_t i = -2; i <= 2; ++i) {
    for (std::int32_t j = -2; j <= 2; ++j) {
      for (std::int32_t k = -2; k <= 2; ++k) {
        Offset image = delta;
        for (std::size_t d = 0; d < kMaxDims; ++d) {
          image[d] +=
              i * slice_->wrap_vector(0)[d] + j * slice_->wrap_vector(1)[d] + k * slice_->wrap_vector(2)[d];
        }
        if (length(image) > best_length) {
          continue;
        }
        if (length(image) < best_length) {
          best.count = 0;
          best_length = length(image);
        }
        if (best.count < best.list.size()) {
          best.list[best.count++] = image;
        }
      }
    }
  }
  // The positive direction first, as on a plain torus; the set depends on the class of delta alone.
  std::sort(best.list.begin(), best.list.begin() + static_cast<std::ptrdiff_t>(best.count), std::greater<>());
  if (!rule_.split_ties) {
    best.count = 1;
  }
  return best;
}

void Router::walk(Chip from, const Offset& offset, double share, std::vector<RoutedLink>& route) const {
  const auto dims = static_cast<std::int32_t>(slice_->dims().size());
  Chip node = from;
  for (std::int32_t i = 0; i < dims; ++i) {
    const std::int32_t dim = rule_.highest_first ? dims - 1 - i : i;
    const std::int32_t steps = offset[static_cast<std::size_t>(dim)];
    for (std::int32_t step = 0; step < std::abs(steps); ++step) {
      const Link link = slice_->neighbour_link(node, dim, steps > 0);
      AOIZORA_CHECK(link.valid(), "no link from chip {} along dimension {}", node.value, dim);
      route.emplace_back(link, share);
      node = slice_->links()[link.at()].to;
    }
  }
}

void Router::append_route(Chip from, Chip to, std::vector<RoutedLink>& route) const {
  if (from == to) {
    return;
  }
  if (slice_->is_graph()) {
    append_graph_route(from, to, route);
    return;
  }
  if (slice_->slice_of(from) != slice_->slice_of(to)) {
    route.emplace_back(slice_->uplink(slice_->host_of(from)), 1.0);
    route.emplace_back(slice_->downlink(slice_->host_of(to)), 1.0);
    return;
  }
  const Offsets offsets = minimal_offsets(from, to);
  for (std::size_t i = 0; i < offsets.count; ++i) {
    walk(from, offsets.list[i], 1.0 / static_cast<double>(offsets.count), route);
  }
  // Both devices of a chip reach its ICI links; only what ends at the other core crosses between cores.
  if (slice_->cores() == 2 && ((from.value ^ to.value) & 1) != 0) {
    const std::span<const Link> out = slice_->outgoing(Chip(to.value ^ 1));
    route.emplace_back(out.back(), 1.0);
  }
}

std::vector<RoutedLink> Router::route(Chip from, Chip to) const {
  std::vector<RoutedLink> route;
  append_route(from, to, route);
  return route;
}

std::int32_t Router::hops(Chip from, Chip to) const {
  if (from == to) {
    return 0;
  }
  if (slice_->is_graph()) {
    return distance_[from.at() * slice_->chips() + to.at()];
  }
  if (slice_->slice_of(from) != slice_->slice_of(to)) {
    return 2;
  }
  const bool crosses = slice_->cores() == 2 && ((from.value ^ to.value) & 1) != 0;
  return length(minimal_offsets(from, to).list[0]) + (crosses ? 1 : 0);
}

// One breadth-first search backwards from each node; links are tried in id order, so ties go to the lowest.
void Router::build_graph_tables() {
  const std::size_t n = slice_->chips();
  first_link_.assign(n * n, Link());
  distance_.assign(n * n, -1);
  std::vector<std::vector<Link>> incoming(n);
  for (std::size_t l = 0; l < slice_->links().size(); ++l) {
    incoming[slice_->links()[l].to.at()].push_back(Link(static_cast<std::int32_t>(l)));
  }
  for (std::size_t target = 0; target < n; ++target) {
    std::vector<std::size_t> queue{target};
    distance_[target * n + target] = 0;
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::size_t node = queue[head];
      for (const Link link : incoming[node]) {
        const std::size_t from = slice_->links()[link.at()].from.at();
        if (distance_[from * n + target] < 0) {
          distance_[from * n + target] = distance_[node * n + target] + 1;
          first_link_[from * n + target] = link;
          queue.push_back(from);
        }
      }
    }
  }
}

void Router::append_graph_route(Chip from, Chip to, std::vector<RoutedLink>& route) const {
  const std::size_t n = slice_->chips();
  for (Chip node = from; node != to;) {
    const Link link = first_link_[node.at() * n + to.at()];
    if (!link.valid()) {
      user_error("{}: no way from node {} to node {}; add links", slice_->name(), from.value, to.value);
    }
    route.emplace_back(link, 1.0);
    node = slice_->links()[link.at()].to;
  }
}

}  // namespace aoizora::topology
