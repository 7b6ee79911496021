// JAX's device order, re-stated from what jax 0.12 does (jax/_src/mesh_utils.py, sharding_impls.make_mesh).
// tests/cases/device_mesh.py asks JAX itself for every slice and mesh shape; baselines_test.cc compares.
#include "aoizora/place/baselines.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

#include "aoizora/base/error.h"

namespace aoizora::place {
namespace {

using topology::Placement;
using topology::Slice;
using Sizes = std::vector<std::int64_t>;
/// sizes[physical axis][logical axis]: how much of the physical axis the logical one takes.
using Assignment = std::vector<Sizes>;

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// The physical mesh as JAX sees it: always x, y, z, then the core where a chip has two devices.
Sizes physical_shape(const Slice& slice) {
  Sizes shape(slice.dims().begin(), slice.dims().end());
  shape.resize(3, 1);
  if (slice.cores() > 1) {
    shape.push_back(slice.cores());
  }
  return shape;
}

Chip chip_at(const Slice& slice, const Sizes& index) {
  const topology::Coordinates coordinates(index.begin(), index.end());
  return slice.at(coordinates);
}

bool is_2d_kind(const Slice& slice) { return slice.kind() == "v5e" || slice.kind() == "v6e"; }

Placement from_numbers(std::span<const std::int32_t> order) {
  Placement placement;
  for (const std::int32_t chip : order) {
    placement.emplace_back(chip);
  }
  return placement;
}

/// Fixed orders that JAX has for small slices, whatever the mesh shape (chips numbered x fastest).
std::optional<Placement> small_slice_order(const Slice& slice, const LogicalMesh& mesh) {
  static constexpr std::array<std::int32_t, 4> kRing2x2 = {0, 1, 3, 2};
  static constexpr std::array<std::int32_t, 8> kRingOf8 = {0, 1, 2, 3, 7, 6, 5, 4};
  static constexpr std::array<std::int32_t, 16> kRing4x4 = {0,  1,  2,  3,  7,  6,  5, 9,
                                                            10, 11, 15, 14, 13, 12, 8, 4};
  static constexpr std::array<std::int32_t, 8> kCube = {0, 1, 3, 2, 6, 7, 5, 4};
  static constexpr std::array<std::int32_t, 8> kTray = {0, 1, 2, 3, 6, 7, 4, 5};
  const Sizes shape = physical_shape(slice);
  const auto chips = static_cast<std::int64_t>(slice.chips());
  if (is_2d_kind(slice)) {
    if (shape[0] == 2 && shape[1] == 2) return from_numbers(kRing2x2);
    if (chips == 8) return from_numbers(kRingOf8);
    const std::int32_t largest = *std::max_element(mesh.shape.begin(), mesh.shape.end());
    if (shape[0] == 4 && shape[1] == 4 && largest == chips) return from_numbers(kRing4x4);
  }
  if (slice.kind() == "v5p" && shape == Sizes{2, 2, 2}) return from_numbers(kCube);
  if (slice.kind() == "v7x" && chips % 8 == 0 && chips <= 32 && shape[0] <= 2 && shape[1] <= 2) {
    Placement placement;
    for (std::int32_t tray = 0; tray < chips; tray += 8) {
      for (const std::int32_t device : kTray) {
        placement.emplace_back(tray + device);
      }
    }
    return placement;
  }
  return std::nullopt;
}

/// Calls body with each subset of `count` of `n` axes, in lexicographic order, until it returns true.
bool for_each_subset(std::size_t n, std::size_t count,
                     const std::function<bool(const std::vector<std::size_t>&)>& body) {
  std::vector<std::size_t> subset(count);
  std::iota(subset.begin(), subset.end(), 0);
  while (true) {
    if (body(subset)) return true;
    std::size_t i = count;
    while (i > 0 && subset[i - 1] == n - count + i - 1) --i;
    if (i == 0) return false;
    ++subset[i - 1];
    for (std::size_t k = i; k < count; ++k) subset[k] = subset[k - 1] + 1;
  }
}

std::vector<std::vector<std::size_t>> subsets(const Slice& slice, std::size_t axes, std::size_t count) {
  std::vector<std::vector<std::size_t>> found;
  for_each_subset(axes, count, [&](const auto& subset) {
    found.push_back(subset);
    return false;
  });
  if (slice.kind() == "v7x" && axes == 4) {
    // JAX prefers the core axis there, whose link is faster, then x, y, z.
    static constexpr std::array<std::size_t, 4> kRank = {1, 2, 3, 0};
    const auto key = [](const std::vector<std::size_t>& subset) {
      std::size_t best = kRank.size(), total = 0;
      for (const std::size_t axis : subset) {
        best = std::min(best, kRank[axis]);
        total += kRank[axis];
      }
      return std::pair(best, total);
    };
    std::stable_sort(found.begin(), found.end(),
                     [&](const auto& a, const auto& b) { return key(a) < key(b); });
  }
  return found;
}

/// Whole physical axes for each logical axis, last logical axis first, as many physical axes as possible.
/// Returns the logical axis that fails, or none and the axes of each.
std::optional<std::size_t> assign_whole_axes(const Slice& slice, const Sizes& physical,
                                             const LogicalMesh& mesh,
                                             std::vector<std::vector<std::size_t>>& taken) {
  Sizes left = physical;
  taken.assign(mesh.shape.size(), {});
  for (std::size_t logical = mesh.shape.size(); logical-- > 0;) {
    for (std::size_t count = physical.size(); count > 0 && taken[logical].empty(); --count) {
      for (const auto& subset : subsets(slice, physical.size(), count)) {
        std::int64_t size = 1;
        for (const std::size_t axis : subset) size *= left[axis];
        if (size == mesh.shape[logical]) {
          taken[logical] = subset;
          break;
        }
      }
    }
    for (const std::size_t axis : taken[logical]) left[axis] = 0;
    if (taken[logical].empty() && mesh.shape[logical] > 1) return logical;
  }
  return std::nullopt;
}

/// Lays the chips out with physical axis `order[i].first` split so that its part `order[i].second` varies
/// slower than the later ones of the list (row-major).
struct Digit {
  std::size_t physical;
  std::int64_t size;
  std::int64_t stride;  // within the physical axis
};

Placement read_out(const Slice& slice, std::size_t physical_axes, const std::vector<Digit>& digits) {
  Placement placement;
  const auto chips = static_cast<std::int64_t>(slice.chips());
  for (std::int64_t position = 0; position < chips; ++position) {
    Sizes index(physical_axes, 0);
    std::int64_t rest = position;
    for (std::size_t i = digits.size(); i-- > 0;) {
      index[digits[i].physical] += rest % digits[i].size * digits[i].stride;
      rest /= digits[i].size;
    }
    placement.push_back(chip_at(slice, index));
  }
  return placement;
}

std::vector<std::int64_t> prime_factors(std::int64_t value) {
  std::vector<std::int64_t> factors;
  for (std::int64_t p = 2; value > 1; ++p) {
    for (; value % p == 0; value /= p) factors.push_back(p);
  }
  return factors;
}

/// Every way to take a logical axis out of what is left of the physical ones.
std::vector<Sizes> splits(const Sizes& available, std::int64_t size) {
  std::map<std::int64_t, std::size_t> multiplicity;
  for (const std::int64_t factor : prime_factors(size)) ++multiplicity[factor];
  std::vector<Sizes> found = {Sizes(available.size(), 1)};
  for (const auto& [factor, count] : multiplicity) {
    std::vector<std::size_t> holders;  // physical axis of each copy of this prime
    for (std::size_t axis = 0; axis < available.size(); ++axis) {
      for (const std::int64_t p : prime_factors(available[axis])) {
        if (p == factor) holders.push_back(axis);
      }
    }
    std::vector<Sizes> extended;
    if (count <= holders.size()) {
      const std::int64_t prime = factor;
      for_each_subset(holders.size(), count, [&, prime](const auto& subset) {
        for (const Sizes& base : found) {
          extended.push_back(base);
          for (const std::size_t i : subset) extended.back()[holders[i]] *= prime;
        }
        return false;
      });
    }
    found = std::move(extended);
  }
  return found;
}

/// JAX's preference among splits: most in whole physical axes, most whole axes, most in axes that earlier
/// logical axes already use, then the lexicographically largest. A total order, so the order tried in does
/// not matter.
auto preference(const Sizes& split, const Sizes& physical, const Sizes& used) {
  std::int64_t whole_size = 1, whole_axes = 0, shared = 1;
  for (std::size_t axis = 0; axis < split.size(); ++axis) {
    if (split[axis] == physical[axis]) {
      whole_size *= split[axis];
      whole_axes += split[axis] > 1 ? 1 : 0;
    }
    if (used[axis] > 1) shared *= split[axis];
  }
  return std::tuple(whole_size, whole_axes, shared, split);
}

Placement split_axes(const Slice& slice, const Sizes& physical, const LogicalMesh& mesh) {
  Assignment assignment(physical.size(), Sizes(mesh.shape.size(), 1));
  for (std::size_t logical = mesh.shape.size(); logical-- > 0;) {
    Sizes used, available;
    for (std::size_t axis = 0; axis < physical.size(); ++axis) {
      used.push_back(product(assignment[axis]));
      available.push_back(physical[axis] / used.back());
    }
    const std::vector<Sizes> candidates = splits(available, mesh.shape[logical]);
    AOIZORA_CHECK(!candidates.empty(), "mesh {} on {}", mesh_text(mesh), slice.name());
    const auto best =
        std::max_element(candidates.begin(), candidates.end(), [&](const Sizes& a, const Sizes& b) {
          return preference(a, physical, used) < preference(b, physical, used);
        });
    for (std::size_t axis = 0; axis < physical.size(); ++axis) assignment[axis][logical] = (*best)[axis];
  }
  // Within a physical axis later logical axes vary fastest: they talk most, so they get neighbours.
  std::vector<Digit> digits;
  for (std::size_t logical = 0; logical < mesh.shape.size(); ++logical) {
    for (std::size_t axis = 0; axis < physical.size(); ++axis) {
      std::int64_t stride = 1;
      for (std::size_t later = logical + 1; later < mesh.shape.size(); ++later)
        stride *= assignment[axis][later];
      digits.push_back({axis, assignment[axis][logical], stride});
    }
  }
  return read_out(slice, physical.size(), digits);
}

void check_fits(const Slice& slice, const LogicalMesh& mesh) {
  if (mesh_size(mesh) != static_cast<std::int64_t>(slice.chips())) {
    user_error("mesh {} has {} positions but {} has {} chips; give --mesh sizes whose product is {}",
               mesh_text(mesh), mesh_size(mesh), slice.name(), slice.chips(), slice.chips());
  }
}

DeviceMesh device_mesh(const Slice& slice, const LogicalMesh& mesh, bool may_split) {
  check_fits(slice, mesh);
  if (slice.is_graph() || slice.slices() > 1) {
    return {std::nullopt, "JAX has no order for this: it needs create_hybrid_device_mesh or one slice"};
  }
  if (auto fixed = small_slice_order(slice, mesh)) {
    return {std::move(fixed), ""};
  }
  const Sizes physical = physical_shape(slice);
  std::vector<std::vector<std::size_t>> taken;
  if (const auto failed = assign_whole_axes(slice, physical, mesh, taken)) {
    if (may_split) return {split_axes(slice, physical, mesh), ""};
    return {
        std::nullopt,
        fmt::format("JAX refuses mesh {} on {}: axis {} of size {} is not a product of whole physical axes "
                    "(NotImplementedError unless allow_split_physical_axes)",
                    mesh_text(mesh), slice.name(), mesh.axes[*failed], mesh.shape[*failed])};
  }
  std::vector<Digit> digits;
  for (const auto& axes : taken) {
    for (const std::size_t axis : axes) digits.push_back({axis, physical[axis], 1});
  }
  return {read_out(slice, physical.size(), digits), ""};
}

}  // namespace

std::int64_t mesh_size(const LogicalMesh& mesh) {
  if (mesh.axes.size() != mesh.shape.size() || mesh.axes.empty()) {
    user_error("a mesh needs one size for each axis name, like data=2,context=4");
  }
  std::int64_t size = 1;
  for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
    if (mesh.shape[i] < 1 || mesh.shape[i] > 65536) {
      user_error("mesh axis {} has size {}; sizes are from 1 to 65536", mesh.axes[i], mesh.shape[i]);
    }
    size *= mesh.shape[i];
    if (size > 1'000'000) user_error("mesh {} has too many positions", mesh_text(mesh));
  }
  return size;
}

std::string mesh_text(const LogicalMesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", mesh.axes[i], mesh.shape[i]);
  }
  return text;
}

DeviceMesh create_device_mesh(const Slice& slice, const LogicalMesh& mesh) {
  // jax.make_mesh allows splitting on v5e only.
  return device_mesh(slice, mesh, slice.kind() == "v5e");
}

Placement default_split(const Slice& slice, const LogicalMesh& mesh) {
  DeviceMesh made = device_mesh(slice, mesh, true);
  return made.placement ? *std::move(made.placement) : topology::row_major(slice);
}

}  // namespace aoizora::place
