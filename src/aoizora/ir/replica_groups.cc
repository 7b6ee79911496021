#include "aoizora/ir/replica_groups.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "aoizora/ir/mesh_groups.h"
#include "aoizora/ir/scanner.h"

namespace aoizora::ir {
namespace {

using Ids = std::vector<std::int64_t>;

/// Reads one value; errors carry the place inside the text.
class GroupsReader {
 public:
  GroupsReader(const std::string& text, std::int64_t devices, const std::string& file)
      : scan_(text, file), devices_(devices) {}

  ReplicaGroups::List read() {
    scan_.skip_space();
    ReplicaGroups::List groups;
    if (*scan_.p == '{') {
      groups = list();
    } else if (*scan_.p == '[') {
      groups = iota();
    } else if (std::string_view(scan_.p).starts_with("mesh[")) {
      groups = mesh();
    } else {
      scan_.fail(scan_.p, "expected replica groups: '{{0,1},..}', '[G,S]<=[N]' or 'mesh[..] {..}'");
    }
    scan_.skip_space();
    if (!scan_.at_end()) scan_.fail(scan_.p, "unexpected text after the replica groups");
    check(groups);
    return groups;
  }

  /// Moves a place in the value to a place in the file.
  static Position place(Position inside, Position value) {
    if (inside.line > 1) return {value.line + inside.line - 1, inside.column};
    return {value.line, value.column + inside.column - 1};
  }

 private:
  ReplicaGroups::List list() {
    scan_.expect('{', "'{'");
    ReplicaGroups::List groups;
    if (scan_.accept('}')) {
      if (devices_ > 0) groups.push_back(all_ids(devices_));
      return groups;
    }
    do {
      scan_.expect('{', "'{' before a group");
      Ids& group = groups.emplace_back();
      do {
        scan_.skip_space();
        if (*scan_.p == '}' && group.empty()) scan_.fail(scan_.p, "a replica group must not be empty");
        group.push_back(number("a device id"));
      } while (scan_.accept(','));
      scan_.expect('}', "',' or '}' in a group");
    } while (scan_.accept(','));
    scan_.expect('}', "',' or '}' after a group");
    return groups;
  }

  /// `[a,b]`, each at least 1; `product` is limited before anything of that size is made.
  Ids dims(std::int64_t& product) {
    Ids sizes;
    product = 1;
    scan_.expect('[', "'['");
    do {
      scan_.skip_space();
      const char* const at = scan_.p;
      sizes.push_back(number("a size"));
      if (sizes.back() < 1) scan_.fail(at, "a size must be at least 1");
      if (sizes.size() > 64) scan_.fail(at, "more than 64 dimensions");
      if (__builtin_mul_overflow(product, sizes.back(), &product)) {
        scan_.fail(at, "the product of the sizes does not fit 64 bits");
      }
    } while (scan_.accept(','));
    scan_.expect(']', "',' or ']' after a size");
    return sizes;
  }

  /// `T(1,0)`; the identity where it is not written.
  std::vector<std::size_t> transpose(std::size_t rank) {
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    scan_.skip_space();
    if (*scan_.p != 'T') return order;
    const char* const at = scan_.p++;
    scan_.expect('(', "'(' after T");
    std::vector<bool> seen(rank, false);
    std::size_t count = 0;
    do {
      scan_.skip_space();
      const std::int64_t dim = number("a dimension");
      if (dim < 0 || static_cast<std::size_t>(dim) >= rank || count >= rank ||
          seen[static_cast<std::size_t>(dim)]) {
        scan_.fail(at, fmt::format("T(..) must be a permutation of the {} dimensions", rank));
      }
      seen[static_cast<std::size_t>(dim)] = true;
      order[count++] = static_cast<std::size_t>(dim);
    } while (scan_.accept(','));
    scan_.expect(')', "',' or ')' in T(..)");
    if (count != rank) scan_.fail(at, fmt::format("T(..) must be a permutation of the {} dimensions", rank));
    return order;
  }

  /// iota(product) reshaped to `sizes`, transposed by `order`, flattened.
  static Ids transposed_iota(const Ids& sizes, const std::vector<std::size_t>& order, std::int64_t product) {
    Ids strides(sizes.size());
    std::int64_t stride = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= sizes[i];
    }
    Ids index(sizes.size(), 0);  // counts over the transposed dimensions
    Ids ids;
    ids.reserve(static_cast<std::size_t>(product));
    std::int64_t id = 0;
    while (static_cast<std::int64_t>(ids.size()) < product) {
      ids.push_back(id);
      for (std::size_t i = sizes.size(); i-- > 0;) {
        id += strides[order[i]];
        if (++index[i] < sizes[order[i]]) break;
        id -= strides[order[i]] * sizes[order[i]];
        index[i] = 0;
      }
    }
    return ids;
  }

  ReplicaGroups::List iota() {
    const char* const at = scan_.p;
    std::int64_t wanted = 0;
    const Ids shape = dims(wanted);
    if (shape.size() != 2) scan_.fail(at, "iota groups need two sizes: [groups,group size]");
    scan_.skip_space();
    const char* const arrow = scan_.p;
    if (arrow[0] != '<' || arrow[1] != '=') scan_.fail_here("expected '<=' after the group sizes");
    scan_.p += 2;
    std::int64_t product = 0;
    const Ids reshape = dims(product);
    const auto order = transpose(reshape.size());
    if (product != wanted) {
      scan_.fail(at, fmt::format("[{},{}] names {} ids, but the list behind '<=' has {}", shape[0], shape[1],
                                 wanted, product));
    }
    check_count(at, product);
    const Ids ids = transposed_iota(reshape, order, product);
    ReplicaGroups::List groups(static_cast<std::size_t>(shape[0]));
    auto next = ids.begin();
    for (Ids& group : groups) {
      group.assign(next, next + shape[1]);
      next += shape[1];
    }
    return groups;
  }

  std::string_view quoted(const char* what) {
    scan_.skip_space();
    if (*scan_.p != '\'') scan_.fail_here(fmt::format("expected {} in single quotes", what));
    const char* const start = ++scan_.p;
    while (*scan_.p != '\'' && *scan_.p != '\n' && !scan_.at_end()) ++scan_.p;
    if (*scan_.p != '\'') scan_.fail(start, fmt::format("{} has no closing quote", what));
    return {start, static_cast<std::size_t>(scan_.p++ - start)};
  }

  bool accept_word(std::string_view word) {
    scan_.skip_space();
    if (!std::string_view(scan_.p, static_cast<std::size_t>(scan_.end() - scan_.p)).starts_with(word)) {
      return false;
    }
    scan_.p += word.size();
    return true;
  }

  void mesh_axis(DeviceMesh& mesh) {
    const char* const at = scan_.p;
    MeshAxis axis{quoted("an axis name"), 1};
    if (find_axis(mesh, axis.name) >= 0)
      scan_.fail(at, fmt::format("axis '{}' is declared twice", axis.name));
    scan_.expect('=', "'=' after an axis name");
    scan_.skip_space();
    axis.size = number("an axis size");
    if (axis.size < 1) scan_.fail(at, "an axis size must be at least 1");
    mesh.axes.push_back(axis);
  }

  /// `device_ids=(0,2,1,3)` or `device_ids=([2,2]T(1,0))`, the word already taken.
  Ids device_ids(std::int64_t positions) {
    scan_.expect('=', "'=' after device_ids");
    scan_.expect('(', "'(' after device_ids=");
    scan_.skip_space();
    const char* const at = scan_.p;
    Ids ids;
    if (*at == '[') {
      std::int64_t product = 0;
      Ids sizes = dims(product);
      if (accept_word("<=")) {
        std::int64_t behind = 0;
        sizes = dims(behind);
        if (behind != product) scan_.fail(at, "the sizes before and behind '<=' have different products");
      }
      const auto order = transpose(sizes.size());
      check_count(at, product);
      ids = transposed_iota(sizes, order, product);
    } else {
      do {
        scan_.skip_space();
        ids.push_back(number("a device id"));
      } while (scan_.accept(','));
    }
    scan_.expect(')', "',' or ')' in device_ids");
    if (static_cast<std::int64_t>(ids.size()) != positions) {
      scan_.fail(at, fmt::format("{} device ids for a mesh of {} positions", ids.size(), positions));
    }
    return ids;
  }

  /// By name, else by number: `{'1'}` is the second axis unless one is called so.
  static std::ptrdiff_t axis_named(const DeviceMesh& mesh, std::string_view name) {
    const std::ptrdiff_t named = find_axis(mesh, name);
    if (named >= 0) return named;
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = error == std::errc() && end == name.data() + name.size();
    return number && index < mesh.axes.size() ? static_cast<std::ptrdiff_t>(index) : -1;
  }

  AxisRef axis_ref(const DeviceMesh& mesh) {
    const char* const at = scan_.p;
    const std::string_view name = quoted("an axis name");
    const std::ptrdiff_t axis = axis_named(mesh, name);
    if (axis < 0) {
      std::string known;
      for (const MeshAxis& a : mesh.axes) known += fmt::format("{}'{}'", known.empty() ? "" : ", ", a.name);
      scan_.fail(at, fmt::format("the mesh has no axis '{}'; its axes are {}", name, known));
    }
    AxisRef ref{static_cast<std::size_t>(axis), 1, mesh.axes[static_cast<std::size_t>(axis)].size};
    if (!scan_.accept(':')) return ref;
    scan_.expect('(', "'(' of a sub-axis");
    ref.pre = number("the sub-axis's pre-size");
    scan_.expect(')', "')' of a sub-axis");
    ref.size = number("the sub-axis's size");
    return ref;
  }

  ReplicaGroups::List mesh() {
    const char* const at = scan_.p;
    scan_.p += std::string_view("mesh[").size();
    DeviceMesh mesh;
    const char* inner_ids = nullptr;
    if (!scan_.accept(']')) {
      do {
        scan_.skip_space();
        if (*scan_.p != '\'' && accept_word("device_ids")) {
          inner_ids = scan_.p;  // older printers put it inside the brackets
          scan_.expect('=', "'=' after device_ids");
          scan_.skip_space();
          scan_.skip_balanced();
        } else {
          mesh_axis(mesh);
        }
        check_count(at, checked_positions(at, mesh));
      } while (scan_.accept(','));
      scan_.expect(']', "',' or ']' in the mesh");
    }
    const std::int64_t positions = mesh.positions();
    const char* const after = scan_.p;
    if (inner_ids != nullptr) {
      scan_.p = inner_ids;
      mesh.device_ids = device_ids(positions);
      scan_.p = after;
    } else if (scan_.accept(',')) {
      if (!accept_word("device_ids")) scan_.fail_here("expected device_ids=(..) or the axes in braces");
      mesh.device_ids = device_ids(positions);
    }
    scan_.expect('{', "the grouped axes in braces");
    std::vector<AxisRef> refs;
    const char* const refs_at = scan_.p;
    if (!scan_.accept('}')) {
      do {
        scan_.skip_space();
        refs.push_back(axis_ref(mesh));
      } while (scan_.accept(','));
      scan_.expect('}', "',' or '}' after an axis");
    }
    const std::string problem = check_axis_refs(mesh, refs);
    if (!problem.empty()) scan_.fail(refs_at, problem);
    return expand_mesh_groups(mesh, refs);
  }

  std::int64_t checked_positions(const char* at, const DeviceMesh& mesh) {
    std::int64_t product = 1;
    for (const MeshAxis& axis : mesh.axes) {
      if (__builtin_mul_overflow(product, axis.size, &product)) {
        scan_.fail(at, "the product of the mesh axes does not fit 64 bits");
      }
    }
    return product;
  }

  /// Before anything of that size is made.
  void check_count(const char* at, std::int64_t count) {
    if (devices_ > 0 && count > devices_) {
      scan_.fail(at, fmt::format("the groups name {} devices, the program has {}", count, devices_));
    }
    if (count > kMaxGroupIds) scan_.fail(at, fmt::format("{} devices are more than {}", count, kMaxGroupIds));
  }

  static Ids all_ids(std::int64_t count) {
    Ids ids(static_cast<std::size_t>(std::min(count, kMaxGroupIds)));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
    return ids;
  }

  std::int64_t number(const char* what) {
    scan_.skip_space();
    if (*scan_.p == '-') scan_.fail(scan_.p, fmt::format("{} must not be negative", what));
    // The scanner treats a number that touches the end of the text as cut off; so the value ends in a blank.
    return scan_.integer(what);
  }

  void check(const ReplicaGroups::List& groups) {
    const std::string problem = groups_problem(groups, devices_);
    if (!problem.empty()) scan_.fail(scan_.begin(), problem);
  }

  Scanner scan_;
  std::int64_t devices_;
};

}  // namespace

std::string groups_problem(const ReplicaGroups::List& groups, std::int64_t devices) {
  Ids ids;
  for (const Ids& group : groups) ids.insert(ids.end(), group.begin(), group.end());
  if (ids.empty()) return {};
  if (static_cast<std::int64_t>(ids.size()) > kMaxGroupIds) {
    return fmt::format("{} devices are more than {}", ids.size(), kMaxGroupIds);
  }
  std::sort(ids.begin(), ids.end());
  if (ids.front() < 0) return fmt::format("device {} is negative", ids.front());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) return fmt::format("device {} is in the replica groups twice", *twice);
  if (devices > 0 && ids.back() >= devices) {
    return fmt::format("device {} is out of range: the program has {} devices, 0 to {}", ids.back(), devices,
                       devices - 1);
  }
  return {};
}

ReplicaGroups parse_replica_groups(std::string_view text, std::int64_t devices, const std::string& file,
                                   Position at) {
  const std::string copy = std::string(text) + " ";
  try {
    return ReplicaGroups(GroupsReader(copy, devices, file).read());
  } catch (const UserError& error) {
    throw UserError(file, GroupsReader::place(error.position(), at), error.message());
  } catch (const Truncated&) {
    throw UserError(file, at, "the replica groups are incomplete");
  }
}

}  // namespace aoizora::ir
