#include "aoizora/topology/builder.h"

#include <algorithm>

#include "aoizora/base/error.h"

namespace aoizora::topology {
namespace {

bool dimension_wraps(const ChipKind& kind, const std::vector<std::int32_t>& sizes, std::size_t dim) {
  if (kind.wrap == WrapRule::kOnlySixteen) {
    return sizes[dim] == 16;
  }
  return std::all_of(sizes.begin(), sizes.end(), [](std::int32_t size) { return size % 4 == 0; });
}

}  // namespace

Slice SliceBuilder::torus(std::string name, const ChipKind& kind, const std::vector<std::int32_t>& sizes,
                          bool twisted, std::int32_t slices) {
  SliceBuilder builder(std::move(name));
  builder.set_shape(kind, sizes, twisted, slices);
  builder.add_coordinates();
  builder.add_ici_links();
  builder.add_core_links();
  builder.add_hosts(kind);
  return std::move(builder.slice_);
}

Slice SliceBuilder::graph(std::string name, std::int32_t nodes, const std::vector<DirectedLink>& links) {
  SliceBuilder builder(std::move(name));
  Slice& slice = builder.slice_;
  slice.kind_ = "graph";
  slice.chips_per_slice_ = nodes;
  for (std::int32_t node = 0; node < nodes; ++node) {
    slice.coordinates_.push_back({node});
    slice.hosts_.push_back(0);
  }
  slice.host_count_ = 1;
  slice.outgoing_.resize(static_cast<std::size_t>(nodes));
  for (const DirectedLink& link : links) {
    builder.add_link(link);
  }
  return std::move(builder.slice_);
}

bool SliceBuilder::change_link(Slice& slice, Chip from, Chip to, const DirectedLink& speed) {
  for (const Link id : slice.outgoing(from)) {
    DirectedLink& link = slice.links_[id.at()];
    if (link.to == to) {
      link.bandwidth = speed.bandwidth;
      link.latency = speed.latency;
      return true;
    }
  }
  return false;
}

void SliceBuilder::set_shape(const ChipKind& kind, const std::vector<std::int32_t>& sizes, bool twisted,
                             std::int32_t slices) {
  slice_.kind_ = std::string(kind.name);
  slice_.cores_ = kind.cores;
  slice_.slices_ = slices;
  slice_.twisted_ = twisted;
  slice_.dims_ = sizes;
  if (sizes.size() == 3 && sizes[2] == 1) {
    slice_.dims_.pop_back();
  }
  std::copy(sizes.begin(), sizes.end(), size_.begin());
  slice_.chips_per_slice_ = size_[0] * size_[1] * size_[2];
  const std::int32_t shortest = *std::min_element(sizes.begin(), sizes.end());
  for (std::size_t d = 0; d < slice_.dims_.size(); ++d) {
    slice_.wrap_.push_back(dimension_wraps(kind, sizes, d));
    auto& vector = slice_.wrap_vectors_[d];
    vector[d] = size_[d];
    // Once around a short dimension k also moves k along each long one, 2k (Camara et al., "Twisted torus
    // topologies for enhanced interconnection networks", 2010; Jouppi et al., "TPU v4", 2023, 2.8).
    for (std::size_t other = 0; twisted && other < slice_.dims_.size(); ++other) {
      if (size_[d] == shortest && size_[other] == 2 * shortest) {
        vector[other] = shortest;
      }
    }
  }
}

Chip SliceBuilder::chip_at(const std::array<std::int32_t, kMaxDims>& grid, std::int32_t slice) const {
  const std::int32_t chip = grid[0] + size_[0] * (grid[1] + size_[1] * grid[2]);
  return Chip((slice * slice_.chips_per_slice_ + chip) * slice_.cores_);
}

void SliceBuilder::add_coordinates() {
  for (std::int32_t slice = 0; slice < slice_.slices_; ++slice) {
    for (std::int32_t i = 0; i < slice_.chips_per_slice_; ++i) {
      for (std::int32_t core = 0; core < slice_.cores_; ++core) {
        Coordinates at{i % size_[0], i / size_[0] % size_[1], i / size_[0] / size_[1]};
        if (slice_.cores_ > 1) {
          at.push_back(core);
        }
        if (slice_.slices_ > 1) {
          at.push_back(slice);
        }
        slice_.coordinates_.push_back(std::move(at));
      }
    }
  }
  slice_.outgoing_.resize(slice_.coordinates_.size());
}

bool SliceBuilder::step(std::array<std::int32_t, kMaxDims>& grid, std::int32_t dim,
                        std::int32_t direction) const {
  const auto d = static_cast<std::size_t>(dim);
  grid[d] += direction;
  if (grid[d] >= 0 && grid[d] < size_[d]) {
    return true;
  }
  if (!slice_.wrap_[d]) {
    return false;
  }
  for (std::size_t other = 0; other < kMaxDims; ++other) {
    const std::int32_t back = direction * slice_.wrap_vectors_[d][other];
    grid[other] = ((grid[other] - back) % size_[other] + size_[other]) % size_[other];
  }
  return true;
}

void SliceBuilder::add_link(const DirectedLink& link) {
  const Link id(static_cast<std::int32_t>(slice_.links_.size()));
  slice_.links_.push_back(link);
  if (link.from.valid()) {
    slice_.outgoing_[link.from.at()].push_back(id);
  }
}

void SliceBuilder::add_ici_links() {
  const std::size_t chips = slice_.coordinates_.size() / static_cast<std::size_t>(slice_.cores_);
  slice_.neighbour_.assign(chips * 2 * kMaxDims, Link());
  for (std::size_t i = 0; i < chips; ++i) {
    const Chip chip(static_cast<std::int32_t>(i) * slice_.cores_);
    for (std::int32_t dim = 0; dim < std::ssize(slice_.dims_); ++dim) {
      for (const std::int32_t direction : {1, -1}) {
        auto grid = slice_.grid(chip);
        if (slice_.dims_[static_cast<std::size_t>(dim)] == 1 || !step(grid, dim, direction)) {
          continue;
        }
        slice_.neighbour_[i * 2 * kMaxDims + static_cast<std::size_t>(2 * dim + (direction > 0 ? 0 : 1))] =
            Link(static_cast<std::int32_t>(slice_.links_.size()));
        add_link(
            {.from = chip, .to = chip_at(grid, slice_.slice_of(chip)), .dim = dim, .direction = direction});
      }
    }
  }
}

void SliceBuilder::add_core_links() {
  if (slice_.cores_ == 1) {
    return;
  }
  AOIZORA_CHECK(slice_.cores_ == 2, "a chip has one or two devices, not {}", slice_.cores_);
  for (std::int32_t chip = 0; chip < std::ssize(slice_.coordinates_); chip += 2) {
    add_link({.from = Chip(chip), .to = Chip(chip + 1), .direction = 1, .link_class = LinkClass::kCore});
    add_link({.from = Chip(chip + 1), .to = Chip(chip), .direction = -1, .link_class = LinkClass::kCore});
  }
}

void SliceBuilder::add_hosts(const ChipKind& kind) {
  std::array<std::int32_t, kMaxDims> box = kind.host;
  if (kind.dims == 2 && size_[0] * size_[1] <= 8) {
    box = {size_[0], size_[1], 1};  // a single host drives up to 8 chips
  }
  std::array<std::int32_t, kMaxDims> boxes{};
  for (std::size_t d = 0; d < kMaxDims; ++d) {
    box[d] = std::min(box[d], size_[d]);
    boxes[d] = (size_[d] + box[d] - 1) / box[d];
  }
  const std::int32_t per_slice = boxes[0] * boxes[1] * boxes[2];
  slice_.host_count_ = per_slice * slice_.slices_;
  for (std::int32_t i = 0; i < std::ssize(slice_.coordinates_); ++i) {
    const auto grid = slice_.grid(Chip(i));
    slice_.hosts_.push_back(slice_.slice_of(Chip(i)) * per_slice + grid[0] / box[0] +
                            boxes[0] * (grid[1] / box[1] + boxes[1] * (grid[2] / box[2])));
  }
  if (slice_.slices_ == 1) {
    return;
  }
  slice_.first_uplink_ = static_cast<std::int32_t>(slice_.links_.size());
  std::vector<Chip> first(static_cast<std::size_t>(slice_.host_count_));
  for (std::int32_t i = static_cast<std::int32_t>(slice_.coordinates_.size()); i-- > 0;) {
    first[static_cast<std::size_t>(slice_.hosts_[static_cast<std::size_t>(i)])] = Chip(i);
  }
  for (const Chip chip : first) {
    add_link({.from = chip, .to = Chip(), .direction = 1, .link_class = LinkClass::kDcn});
    add_link({.from = Chip(), .to = chip, .direction = -1, .link_class = LinkClass::kDcn});
  }
}

}  // namespace aoizora::topology
