#include "aoizora/base/json.h"

#include <algorithm>
#include <limits>

namespace aoizora {
namespace {

constexpr int kMaxDepth = 200;

/// Line and column of a byte offset (from 1, as nlohmann reports it).
Position position_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? std::min(byte - 1, text.size()) : 0);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == std::string_view::npos ? before.size() : before.size() - start - 1;
  return {static_cast<std::uint32_t>(lines + 1), static_cast<std::uint32_t>(column + 1)};
}

/// Where brackets nest deeper than the limit; strings are skipped.
std::optional<std::size_t> too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return i + 1;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return std::nullopt;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& file) {
  if (const auto byte = too_deep(text)) {
    throw UserError(file, position_of(text, *byte), fmt::format("nested deeper than {}", kMaxDepth));
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw UserError(file, position_of(text, error.byte), "this is not JSON");
  } catch (const Json::out_of_range&) {
    throw UserError(file, {}, "a number is too large");
  }
}

void JsonView::fail(std::string_view expected) const {
  std::string shown = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  user_error("{}: expected {}, found {}", path_, expected, shown);
}

JsonView JsonView::at(std::string_view key) const {
  if (auto found = find(key)) return *found;
  user_error("{}: the member `{}` is missing", path_, key);
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) return std::nullopt;
  return JsonView(*found, fmt::format("{}.{}", path_, key));
}

std::vector<JsonView> JsonView::items() const {
  if (!value_->is_array()) fail("a list");
  std::vector<JsonView> views;
  views.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) {
    views.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i));
  }
  return views;
}

std::vector<std::pair<std::string, JsonView>> JsonView::members() const {
  if (!value_->is_object()) fail("an object");
  std::vector<std::pair<std::string, JsonView>> views;
  for (auto it = value_->begin(); it != value_->end(); ++it) {
    views.emplace_back(it.key(), JsonView(it.value(), fmt::format("{}.{}", path_, it.key())));
  }
  return views;
}

std::string JsonView::string() const {
  if (!value_->is_string()) fail("a string");
  return value_->get<std::string>();
}

std::int64_t JsonView::integer() const {
  if (!value_->is_number_integer()) fail("an integer");
  if (value_->is_number_unsigned() &&
      value_->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail("an integer below 2^63");
  }
  return value_->get<std::int64_t>();
}

double JsonView::number() const {
  if (!value_->is_number()) fail("a number");
  return value_->get<double>();
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

std::string canonical_json(const Json& value) {
  // nlohmann::json (not ordered) keeps members sorted.
  return nlohmann::json(value).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace aoizora
