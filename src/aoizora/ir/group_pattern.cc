#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "aoizora/ir/inspect.h"

namespace aoizora::ir {
namespace {

/// Sizes and strides, major to minor, of a set {base + sum i_k * stride_k}; nullopt when it is none.
std::optional<std::vector<std::pair<std::int64_t, std::int64_t>>> strides_of(std::vector<std::int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  // From the minor end: the first run of equal steps is one dimension; its starts are the rest.
  while (ids.size() > 1) {
    const std::int64_t step = ids[1] - ids[0];
    std::size_t run = 2;
    while (run < ids.size() && ids[run] - ids[run - 1] == step) ++run;
    if (ids.size() % run != 0) return std::nullopt;
    std::vector<std::int64_t> starts;
    for (std::size_t i = 0; i < ids.size(); i += run) {
      for (std::size_t k = 1; k < run; ++k) {
        if (ids[i + k] - ids[i + k - 1] != step) return std::nullopt;
      }
      starts.push_back(ids[i]);
    }
    found.emplace_back(static_cast<std::int64_t>(run), step);
    ids.swap(starts);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

std::string permute_pattern(const Collective& collective) {
  const auto sets = islands(collective);
  if (sets.empty()) return "no pairs";
  std::map<std::int64_t, int> as_source;
  std::map<std::int64_t, int> as_target;
  for (const auto& [source, target] : collective.pairs) {
    ++as_source[source];
    ++as_target[target];
  }
  const auto size_of = [](const auto& set) { return set.size(); };
  const std::size_t largest = size_of(*std::max_element(
      sets.begin(), sets.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); }));
  // Each device once a source and once a target: the pairs close to rings.
  const bool closed = std::all_of(as_source.begin(), as_source.end(),
                                  [&](const auto& entry) { return as_target.contains(entry.first); }) &&
                      as_source.size() == as_target.size();
  const bool equal =
      std::all_of(sets.begin(), sets.end(), [&](const auto& set) { return set.size() == largest; });
  return fmt::format("{} of {}{}", closed ? "rings" : "islands", equal ? "" : "up to ", largest);
}

}  // namespace

std::vector<std::vector<std::int64_t>> islands(const Collective& collective) {
  std::map<std::int64_t, std::int64_t> parent;
  const auto root = [&](std::int64_t id) {
    while (parent[id] != id) id = parent[id] = parent[parent[id]];
    return id;
  };
  for (const auto& [source, target] : collective.pairs) {
    parent.try_emplace(source, source);
    parent.try_emplace(target, target);
    const std::int64_t a = root(source);
    const std::int64_t b = root(target);
    parent[std::max(a, b)] = std::min(a, b);  // the smallest member stays the root
  }
  std::map<std::int64_t, std::vector<std::int64_t>> sets;
  for (const auto& [id, unused] : parent) sets[root(id)].push_back(id);
  std::vector<std::vector<std::int64_t>> result;
  for (auto& [id, members] : sets) result.push_back(std::move(members));
  return result;
}

std::string group_pattern(const Collective& collective, std::int64_t devices) {
  if (!collective.pairs.empty()) return permute_pattern(collective);
  const auto& groups = collective.groups.expanded();
  if (groups.empty()) return collective.host_transfer ? "host" : "unknown";
  if (groups.size() == 1 && static_cast<std::int64_t>(groups[0].size()) == devices && devices > 1) {
    return fmt::format("all {}", devices);
  }
  const auto first = strides_of(groups[0]);
  const bool same = first && std::all_of(groups.begin(), groups.end(),
                                         [&](const auto& group) { return strides_of(group) == first; });
  if (!same) return "irregular";
  if (first->empty()) return "1 device";
  std::string sizes;
  std::string strides;
  for (const auto& [size, stride] : *first) {
    sizes += fmt::format("{}{}", sizes.empty() ? "" : "x", size);
    strides += fmt::format("{}{}", strides.empty() ? "" : ",", stride);
  }
  return fmt::format("{} x stride{} {}", sizes, first->size() > 1 ? "s" : "", strides);
}

std::string axis_names(const Collective& collective) {
  const std::string_view text = collective.groups_text;
  std::vector<std::string> names;
  if (text.starts_with("mesh[")) {
    const std::size_t open = text.rfind('{');
    std::size_t at = open == std::string_view::npos ? text.size() : open;
    while ((at = text.find('\'', at)) != std::string_view::npos) {
      const std::size_t close = text.find('\'', at + 1);
      if (close == std::string_view::npos) break;
      names.emplace_back(text.substr(at + 1, close - at - 1));
      at = close + 1;
    }
  } else if (text.find("axis") != std::string_view::npos || text.starts_with("#sdy<")) {  // MLIR
    std::size_t at = 0;
    while ((at = text.find('"', at)) != std::string_view::npos) {
      const std::size_t close = text.find('"', at + 1);
      if (close == std::string_view::npos) break;
      names.emplace_back(text.substr(at + 1, close - at - 1));
      at = close + 1;
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace aoizora::ir
