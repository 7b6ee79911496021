#include "aoizora/ir/sdy_text.h"

#include <charconv>

namespace aoizora::ir {
namespace {

/// The next integer at or behind `at`; nullopt when a stop character comes first.
std::optional<std::int64_t> next_integer(std::string_view text, std::size_t& at, std::string_view stop) {
  while (at < text.size() && (text[at] < '0' || text[at] > '9')) {
    if (stop.find(text[at]) != std::string_view::npos) return std::nullopt;
    ++at;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  at = static_cast<std::size_t>(end - text.data());
  return value;
}

/// `"name"` at or behind `at`, before `stop`.
std::optional<std::string_view> next_name(std::string_view text, std::size_t& at, std::size_t stop) {
  const std::size_t open = text.find('"', at);
  if (open == std::string_view::npos || open >= stop) return std::nullopt;
  const std::size_t close = text.find('"', open + 1);
  if (close == std::string_view::npos) return std::nullopt;
  at = close + 1;
  return text.substr(open + 1, close - open - 1);
}

}  // namespace

DeviceMesh parse_sdy_mesh(std::string_view text, const std::string& file, Position at) {
  DeviceMesh mesh;
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos) {
    throw UserError(file, at, "expected a mesh `<[\"axis\"=size, ..]>`");
  }
  std::size_t cursor = open;
  std::int64_t positions = 1;
  while (const auto name = next_name(text, cursor, close)) {
    const auto size = next_integer(text, cursor, ",]");
    if (!size || *size < 1)
      throw UserError(file, at, fmt::format("mesh axis '{}' needs a size of at least 1", *name));
    if (find_axis(mesh, *name) >= 0)
      throw UserError(file, at, fmt::format("mesh axis '{}' is declared twice", *name));
    if (__builtin_mul_overflow(positions, *size, &positions) || positions > kMaxGroupIds) {
      throw UserError(file, at, fmt::format("the mesh has more than {} devices", kMaxGroupIds));
    }
    mesh.axes.push_back({*name, *size});
  }
  const std::size_t ids = text.find("device_ids", close);
  if (ids == std::string_view::npos) return mesh;
  cursor = text.find('[', ids);
  while (cursor != std::string_view::npos) {
    const auto id = next_integer(text, cursor, "]");
    if (!id) break;
    mesh.device_ids.push_back(*id);
  }
  if (static_cast<std::int64_t>(mesh.device_ids.size()) != positions) {
    throw UserError(
        file, at, fmt::format("{} device ids for a mesh of {} positions", mesh.device_ids.size(), positions));
  }
  return mesh;
}

std::vector<AxisRef> parse_axis_refs(std::string_view text, const DeviceMesh& mesh, const std::string& file,
                                     Position at) {
  std::vector<AxisRef> refs;
  std::size_t cursor = 0;
  while (const auto name = next_name(text, cursor, text.size())) {
    const std::ptrdiff_t axis = find_axis(mesh, *name);
    if (axis < 0) throw UserError(file, at, fmt::format("the mesh has no axis '{}'", *name));
    AxisRef ref{static_cast<std::size_t>(axis), 1, mesh.axes[static_cast<std::size_t>(axis)].size};
    const std::string_view rest = text.substr(cursor);
    const bool sub_axis = rest.starts_with(":(") || rest.starts_with(", sub_axis_info");
    if (sub_axis) {
      const auto pre = next_integer(text, cursor, "\"");
      const auto size = next_integer(text, cursor, "\"");
      if (!pre || !size)
        throw UserError(file, at, fmt::format("the sub-axis of '{}' needs (pre)size", *name));
      ref.pre = *pre;
      ref.size = *size;
    }
    refs.push_back(ref);
  }
  const std::string problem = check_axis_refs(mesh, refs);
  if (!problem.empty()) throw UserError(file, at, problem);
  return refs;
}

Sharding parse_sharding(std::string_view text) {
  Sharding sharding;
  const std::size_t mesh =
      text.find_first_of("@m", text.find('<') == std::string_view::npos ? 0 : text.find('<'));
  if (mesh == std::string_view::npos) return sharding;
  std::size_t cursor = mesh;
  if (text[mesh] == '@') {
    const std::size_t end = text.find_first_of(",>", mesh);
    if (end == std::string_view::npos) return sharding;
    sharding.mesh = text.substr(mesh + 1, end - mesh - 1);
    cursor = end;
  } else if (text.substr(mesh).starts_with("mesh<")) {
    const std::size_t end = text.find('>', mesh);
    if (end == std::string_view::npos) return sharding;
    sharding.mesh_text = text.substr(mesh + 5, end - mesh - 5);
    cursor = end;
  } else {
    return sharding;
  }
  const std::size_t open = text.find('[', cursor);
  const std::size_t close = text.find(']', cursor);
  if (open == std::string_view::npos || close == std::string_view::npos) return sharding;
  std::size_t brace = text.find('{', open);
  while (brace < close) {
    const std::size_t end = text.find('}', brace);
    if (end == std::string_view::npos) break;
    sharding.dims.push_back(text.substr(brace + 1, end - brace - 1));
    brace = text.find('{', end);
  }
  return sharding;
}

std::int64_t product_of(const std::vector<AxisRef>& refs) {
  std::int64_t product = 1;
  for (const AxisRef& ref : refs) product *= ref.size;
  return product;
}

}  // namespace aoizora::ir
