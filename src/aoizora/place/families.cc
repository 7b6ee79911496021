#include "aoizora/place/families.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "aoizora/base/error.h"
#include "aoizora/place/paths.h"

namespace aoizora::place {
namespace {

using topology::Placement;
using topology::Slice;

/// A physical axis as the numbering of chips has it: chip = sum of index * stride.
struct Axis {
  std::string name;
  std::int32_t size = 1;
  std::int32_t stride = 1;
};

std::vector<Axis> physical_axes(const Slice& slice) {
  std::vector<Axis> axes;
  std::int32_t stride = 1;
  const auto add = [&](std::string name, std::int32_t size) {
    if (size > 1) axes.push_back({std::move(name), size, stride});
    stride *= size;
  };
  if (slice.is_graph()) {
    add("n", static_cast<std::int32_t>(slice.chips()));
    return axes;
  }
  add("core", slice.cores());
  constexpr const char* kNames[] = {"x", "y", "z"};
  for (std::size_t d = 0; d < slice.dims().size(); ++d) add(kNames[d], slice.dims()[d]);
  add("slice", slice.slices());
  return axes;
}

class Generator {
 public:
  Generator(const Slice& slice, const LogicalMesh& mesh, std::size_t limit)
      : slice_(slice), mesh_(mesh), limit_(limit), axes_(physical_axes(slice)) {
    for (std::size_t a = 0; a < mesh.shape.size(); ++a) {
      if (mesh.shape[a] > 1) logical_.push_back(a);
    }
  }

  std::vector<Candidate> run() {
    if (axes_.empty() || logical_.empty()) return {{"row_major", topology::row_major(slice_)}};
    curves();
    splits();
    return std::move(found_);
  }

 private:
  bool full() const { return found_.size() >= limit_; }

  void add(std::string name, const std::vector<std::int32_t>& chips) {
    if (full() || !seen_.insert(chips).second) return;
    Placement placement;
    for (const std::int32_t chip : chips) placement.emplace_back(chip);
    found_.push_back({std::move(name), std::move(placement)});
  }

  // --- Curves ------------------------------------------------------------------------------------------

  /// Cuts a curve into logical axes; `order` lists them slowest first.
  void cut(const std::string& name, const std::vector<std::int32_t>& curve,
           const std::vector<std::size_t>& order) {
    std::vector<std::int32_t> stride(mesh_.shape.size(), 0);
    std::int32_t next = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      stride[order[i]] = next;
      next *= mesh_.shape[order[i]];
    }
    std::vector<std::int32_t> chips;
    for (const Point& at : row_major_path(mesh_.shape)) {
      std::int32_t position = 0;
      for (std::size_t a = 0; a < at.size(); ++a) position += at[a] * stride[a];
      chips.push_back(curve[static_cast<std::size_t>(position)]);
    }
    std::string cut_name = name;
    if (order.size() > 1) {
      cut_name += ", along it";
      for (std::size_t i = order.size(); i-- > 0;) cut_name += " " + mesh_.axes[order[i]];
    }
    add(std::move(cut_name), chips);
  }

  void cut_all(const std::string& name, const std::vector<std::int32_t>& curve) {
    std::vector<std::size_t> order = logical_;
    do {
      cut(name, curve, order);
    } while (std::next_permutation(order.begin(), order.end()) && !full());
  }

  /// Outer path over tiles, inner path inside each; axes in the order `order`.
  void tiles(const std::vector<std::size_t>& order, const Point& tile) {
    Point outer;
    std::string shape, axes;
    for (std::size_t i = 0; i < order.size(); ++i) {
      outer.push_back(axes_[order[i]].size / tile[i]);
      shape += fmt::format("{}{}", i == 0 ? "" : "x", tile[i]);
      axes += axes_[order[i]].name;
    }
    const bool tiled = std::any_of(tile.begin(), tile.end(), [](std::int32_t t) { return t > 1; });
    for (const NamedPath& between : paths_of(outer)) {
      for (const NamedPath& within : paths_of(tile)) {
        std::vector<std::int32_t> curve;
        for (const Point& o : between.path) {
          for (const Point& w : within.path) {
            std::int32_t chip = 0;
            for (std::size_t i = 0; i < order.size(); ++i) {
              chip += (o[i] * tile[i] + w[i]) * axes_[order[i]].stride;
            }
            curve.push_back(chip);
          }
        }
        std::string name = between.name.empty() ? "rows" : between.name;
        if (tiled)
          name = fmt::format("tiles {}{}{} by {}", shape, within.name.empty() ? "" : " ", within.name, name);
        cut_all(fmt::format("{} ({})", name, axes), curve);
      }
    }
  }

  void curves() {
    std::vector<std::size_t> order(axes_.size());
    std::iota(order.begin(), order.end(), 0);
    std::reverse(order.begin(), order.end());  // x fastest first: row_major itself
    std::vector<std::vector<std::size_t>> orders;
    std::sort(order.begin(), order.end());
    do {
      orders.push_back(order);
    } while (std::next_permutation(order.begin(), order.end()));
    std::reverse(orders.begin(), orders.end());
    for (const auto& axis_order : orders) tiles(axis_order, Point(axis_order.size(), 1));
    // Half of the room is left for the splits.
    for (const auto& axis_order : orders) {
      Point tile(axis_order.size(), 1);
      while (next_tile(axis_order, tile)) {
        if (2 * found_.size() < limit_) tiles(axis_order, tile);
      }
    }
  }

  /// The next combination of divisors; false after the last (the whole slice).
  bool next_tile(const std::vector<std::size_t>& order, Point& tile) const {
    for (std::size_t i = tile.size(); i-- > 0;) {
      for (std::int32_t t = tile[i] + 1; t <= axes_[order[i]].size; ++t) {
        if (axes_[order[i]].size % t == 0) {
          tile[i] = t;
          return true;
        }
      }
      tile[i] = 1;
    }
    return false;
  }

  // --- Splits ------------------------------------------------------------------------------------------

  struct Part {
    std::size_t axis;  // physical
    std::int32_t size;
    std::int32_t stride;  // within the physical axis
  };

  void splits() {
    sizes_.assign(axes_.size(), std::vector<std::int32_t>(logical_.size(), 1));
    split_axis(0, 0, mesh_.shape[logical_[0]]);
  }

  /// Chooses how much logical axis `l` takes of physical axis `p`; `left` is what it still needs.
  void split_axis(std::size_t l, std::size_t p, std::int32_t left) {
    if (full()) return;
    if (l == logical_.size()) {
      nest(0, std::vector<std::vector<Part>>(logical_.size()));
      return;
    }
    if (p == axes_.size()) {
      if (left == 1) split_axis(l + 1, 0, l + 1 < logical_.size() ? mesh_.shape[logical_[l + 1]] : 1);
      return;
    }
    std::int32_t used = 1;
    for (std::size_t k = 0; k < l; ++k) used *= sizes_[p][k];
    const std::int32_t available = axes_[p].size / used;
    for (std::int32_t take = std::min(left, available); take >= 1; --take) {
      if (left % take != 0 || available % take != 0) continue;
      sizes_[p][l] = take;
      split_axis(l, p + 1, left / take);
    }
    sizes_[p][l] = 1;
  }

  /// Chooses, axis by axis, which logical axis varies fastest inside the physical one.
  void nest(std::size_t p, std::vector<std::vector<Part>> parts) {
    if (full()) return;
    if (p == axes_.size()) {
      walk(parts);
      return;
    }
    std::vector<std::size_t> sharing;
    for (std::size_t l = 0; l < logical_.size(); ++l) {
      if (sizes_[p][l] > 1) sharing.push_back(l);
    }
    do {
      std::vector<std::vector<Part>> nested = parts;
      std::int32_t stride = 1;
      for (const std::size_t l : sharing) {
        nested[l].push_back({p, sizes_[p][l], stride});
        stride *= sizes_[p][l];
      }
      nest(p + 1, std::move(nested));
    } while (std::next_permutation(sharing.begin(), sharing.end()));
  }

  /// Each logical axis in each of its orders.
  void walk(const std::vector<std::vector<Part>>& parts) {
    std::vector<std::vector<NamedPath>> options;
    for (const auto& of_axis : parts) {
      Point sizes;
      for (std::size_t i = of_axis.size(); i-- > 0;) sizes.push_back(of_axis[i].size);  // x fastest
      options.push_back(paths_of(sizes));
    }
    std::vector<std::size_t> choice(parts.size(), 0);
    while (!full()) {
      lay(parts, options, choice);
      std::size_t i = 0;
      while (i < choice.size() && ++choice[i] == options[i].size()) choice[i++] = 0;
      if (i == choice.size()) return;
    }
  }

  void lay(const std::vector<std::vector<Part>>& parts, const std::vector<std::vector<NamedPath>>& options,
           const std::vector<std::size_t>& choice) {
    std::vector<std::vector<std::int32_t>> offset(mesh_.shape.size(), std::vector<std::int32_t>{0});
    std::string name = "split";
    for (std::size_t l = 0; l < parts.size(); ++l) {
      const NamedPath& path = options[l][choice[l]];
      std::vector<std::int32_t> offsets;
      for (const Point& at : path.path) {
        std::int32_t chip = 0;
        for (std::size_t i = 0; i < at.size(); ++i) {
          const Part& part = parts[l][parts[l].size() - 1 - i];
          chip += at[i] * part.stride * axes_[part.axis].stride;
        }
        offsets.push_back(chip);
      }
      offset[logical_[l]] = std::move(offsets);
      name += fmt::format("{} {}=", l == 0 ? "" : ",", mesh_.axes[logical_[l]]);
      for (std::size_t i = 0; i < parts[l].size(); ++i) {
        const Part& part = parts[l][i];
        name += fmt::format("{}{}{}", i == 0 ? "" : "*", axes_[part.axis].name, part.size);
        if (part.stride > 1) name += fmt::format("@{}", part.stride);
      }
      if (!path.name.empty()) name += " " + path.name;
    }
    std::vector<std::int32_t> chips;
    for (const Point& at : row_major_path(mesh_.shape)) {
      std::int32_t chip = 0;
      for (std::size_t a = 0; a < at.size(); ++a) chip += offset[a][static_cast<std::size_t>(at[a])];
      chips.push_back(chip);
    }
    add(std::move(name), chips);
  }

  const Slice& slice_;
  const LogicalMesh& mesh_;
  std::size_t limit_;
  std::vector<Axis> axes_;
  std::vector<std::size_t> logical_;              // axes of size above 1
  std::vector<std::vector<std::int32_t>> sizes_;  // [physical][logical]
  std::set<std::vector<std::int32_t>> seen_;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Candidate> families(const Slice& slice, const LogicalMesh& mesh, std::size_t limit) {
  AOIZORA_CHECK(limit > 0, "no room for a placement");
  return Generator(slice, mesh, limit).run();
}

}  // namespace aoizora::place
