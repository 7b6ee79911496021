#include "aoizora/shard/dot.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace aoizora::shard {
namespace {

constexpr int kSublanes = 8;

double filled(double size, int multiple) { return std::ceil(size / multiple) * multiple; }

/// `key = [1, 2]` inside an MLIR attribute; an absent key is an empty list.
std::optional<std::vector<std::size_t>> index_list(std::string_view text, std::string_view key) {
  std::vector<std::size_t> list;
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return list;
  std::size_t next = text.find('[', at);
  const std::size_t end = text.find(']', at);
  if (next == std::string_view::npos || end == std::string_view::npos || next > end) return std::nullopt;
  while (next < end) {
    ++next;
    while (next < end && text[next] == ' ') ++next;
    std::size_t value = 0;
    const auto [stop, failed] = std::from_chars(text.data() + next, text.data() + end, value);
    if (failed != std::errc{}) break;
    list.push_back(value);
    next = static_cast<std::size_t>(stop - text.data());
  }
  return list;
}

bool contains(const std::vector<std::size_t>& list, std::size_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

double DotDims::padded_flops(int unit) const {
  return 2 * batch * filled(m, kSublanes) * filled(n, unit) * filled(k, unit);
}

std::optional<DotDims> dot_dims(const ir::Instruction& dot, const ir::Shape& lhs, const ir::Shape& rhs) {
  const auto numbers = dot.attribute("dot_dimension_numbers");
  if (!numbers) return std::nullopt;
  const auto lhs_batch = index_list(*numbers, "lhs_batching_dimensions");
  const auto rhs_batch = index_list(*numbers, "rhs_batching_dimensions");
  const auto lhs_contract = index_list(*numbers, "lhs_contracting_dimensions");
  const auto rhs_contract = index_list(*numbers, "rhs_contracting_dimensions");
  if (!lhs_batch || !rhs_batch || !lhs_contract || !rhs_contract) return std::nullopt;
  const auto in_range = [](const std::vector<std::size_t>& list, const ir::Shape& shape) {
    return std::all_of(list.begin(), list.end(), [&](std::size_t i) { return i < shape.dims.size(); });
  };
  if (!in_range(*lhs_batch, lhs) || !in_range(*lhs_contract, lhs) || !in_range(*rhs_batch, rhs) ||
      !in_range(*rhs_contract, rhs)) {
    return std::nullopt;
  }
  DotDims dims;
  for (std::size_t i = 0; i < lhs.dims.size(); ++i) {
    const auto size = static_cast<double>(lhs.dims[i]);
    if (contains(*lhs_batch, i)) {
      dims.batch *= size;
    } else if (contains(*lhs_contract, i)) {
      dims.k *= size;
    } else {
      dims.m *= size;
    }
  }
  for (std::size_t i = 0; i < rhs.dims.size(); ++i) {
    if (!contains(*rhs_batch, i) && !contains(*rhs_contract, i)) dims.n *= static_cast<double>(rhs.dims[i]);
  }
  return dims;
}

int matrix_unit(std::string_view kind) { return kind == "v6e" || kind == "v7x" ? 256 : 128; }

}  // namespace aoizora::shard
