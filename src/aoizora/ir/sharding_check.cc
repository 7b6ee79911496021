#include "aoizora/ir/sharding_check.h"

#include <algorithm>
#include <optional>

namespace aoizora::ir {
namespace {

constexpr std::string_view kDevices = "{devices=[";

/// Reads one `{devices=[..]..}`; the scanner stands behind `devices=`. Restores nothing.
class TileReader {
 public:
  TileReader(Scanner& scanner, std::string_view value) : scan_(scanner), value_(value) {}

  void check(const Shape* shape) {
    const char* const at = scan_.p;
    const std::vector<std::int64_t> tile = list(']');
    const std::int64_t product = product_of(tile, at);
    std::int64_t listed = 0;
    if (scan_.p[0] == '<' && scan_.p[1] == '=') {
      scan_.p += 2;
      const char* const behind = scan_.p;
      if (*behind != '[') scan_.fail(behind, "expected '[' after '<='");
      listed = product_of(list(']'), behind);
    } else {
      listed = count_ids();
    }
    if (listed != product) {
      scan_.fail(at, fmt::format("the sharding has {} tiles, but lists {} devices", product, listed));
    }
    if (shape != nullptr) check_rank(tile.size(), *shape, at);
  }

 private:
  /// `[a,b,..` up to `close`; p at the bracket.
  std::vector<std::int64_t> list(char close) {
    ++scan_.p;
    std::vector<std::int64_t> values;
    if (scan_.accept(close)) return values;
    do {
      scan_.skip_space();
      values.push_back(scan_.integer("a number of tiles"));
    } while (scan_.accept(','));
    scan_.expect(close, "',' or ']' in the sharding");
    return values;
  }

  std::int64_t product_of(const std::vector<std::int64_t>& sizes, const char* at) {
    std::int64_t product = 1;
    for (const std::int64_t size : sizes) {
      if (size < 1) scan_.fail(at, "a tile dimension must be at least 1");
      if (__builtin_mul_overflow(product, size, &product)) scan_.fail(at, "the tiles do not fit 64 bits");
    }
    return product;
  }

  /// `0,1,2,3` up to a blank or the brace.
  std::int64_t count_ids() {
    std::int64_t count = 0;
    while (Scanner::is_digit(*scan_.p)) {
      scan_.integer("a device id");
      ++count;
      if (*scan_.p == ',') ++scan_.p;
    }
    return count;
  }

  void check_rank(std::size_t tile_rank, const Shape& shape, const char* at) {
    if (shape.is_tuple() || shape.element == ElementType::kToken) return;
    std::size_t extra = 0;
    if (value_.find("last_tile_dim_replicate") != std::string_view::npos) extra = 1;
    const std::size_t dims = value_.find("last_tile_dims={");
    if (dims != std::string_view::npos) {
      const std::string_view rest = value_.substr(dims, value_.find('}', dims) - dims);
      extra = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), ',')) + 1;
    }
    if (tile_rank == shape.dims.size() + extra) return;
    scan_.fail(at, fmt::format("the sharding has {} tile dimensions for an array of {}", tile_rank,
                               shape.dims.size() + extra));
  }

  Scanner& scan_;
  std::string_view value_;
};

}  // namespace

void check_sharding(Scanner& scanner, const Attribute& attribute, const Shape& shape) {
  const std::string_view value = attribute.value;
  const char* const after = scanner.p;
  std::size_t at = value.find(kDevices);
  const bool single = at == 0;
  while (at != std::string_view::npos) {
    scanner.p = value.data() + at + kDevices.size() - 1;
    TileReader(scanner, value).check(single ? &shape : nullptr);
    at = value.find(kDevices, at + 1);
  }
  scanner.p = after;
}

}  // namespace aoizora::ir
