#include "aoizora/topology/kinds.h"

#include <fmt/format.h>

namespace aoizora::topology {
namespace {

// Sources: docs.cloud.google.com/tpu/docs/{v4,v5e,v5p,v6e,tpu7x} (dimensions, largest slice, hosts). A v5e or
// v6e host drives 2x2 chips in a slice of several hosts and 2x4 in one of a single host; the others 2x2x1.
constexpr ChipKind kKinds[] = {
    {"v4", 3, WrapRule::kCubes, 1, true, 16, {2, 2, 1}},
    {"v5e", 2, WrapRule::kOnlySixteen, 1, false, 16, {2, 2, 1}},
    {"v5p", 3, WrapRule::kCubes, 1, true, 24, {2, 2, 1}},
    {"v6e", 2, WrapRule::kOnlySixteen, 1, false, 16, {2, 2, 1}},
    {"v7x", 3, WrapRule::kCubes, 2, false, 36, {2, 2, 1}},
};

struct Alias {
  std::string_view alias;
  std::string_view name;
};
constexpr Alias kAliases[] = {{"tpu7x", "v7x"},    {"v7", "v7x"},        {"ironwood", "v7x"},
                              {"trillium", "v6e"}, {"v5litepod", "v5e"}, {"v5lite", "v5e"}};

}  // namespace

std::span<const ChipKind> chip_kinds() { return kKinds; }

const ChipKind* find_chip_kind(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (alias.alias == name) {
      name = alias.name;
    }
  }
  for (const ChipKind& kind : kKinds) {
    if (kind.name == name) {
      return &kind;
    }
  }
  return nullptr;
}

std::string chip_kind_names() {
  std::string names;
  for (const ChipKind& kind : kKinds) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  }
  return names;
}

}  // namespace aoizora::topology
