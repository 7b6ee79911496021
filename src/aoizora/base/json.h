#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/error.h"

/// JSON with the member order kept, and typed access whose errors name the place (`plan.json:
/// candidates[3].mesh`).
namespace aoizora {

using Json = nlohmann::ordered_json;

/// Parses text; UserError with FILE:LINE:COL. Nesting deeper than 200 is refused: the parser recurses.
Json parse_json(std::string_view text, const std::string& file);

/// A value with the path that leads to it, for messages. Cheap to copy; points into the document.
class JsonView {
 public:
  JsonView(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  /// UserError when this is not an object, or has no such member.
  JsonView at(std::string_view key) const;
  std::optional<JsonView> find(std::string_view key) const;
  /// UserError when this is not an array.
  std::vector<JsonView> items() const;
  std::vector<std::pair<std::string, JsonView>> members() const;

  /// UserError when the value is not of the type, or a number does not fit.
  std::string string() const;
  std::int64_t integer() const;
  double number() const;
  bool boolean() const;
  bool is_null() const { return value_->is_null(); }
  const Json& raw() const { return *value_; }
  const std::string& path() const { return path_; }

  [[noreturn]] void fail(std::string_view expected) const;

 private:
  const Json* value_;
  std::string path_;
};

/// Text that is equal for equal values: members sorted, no spaces. What keys are hashed from.
std::string canonical_json(const Json& value);

}  // namespace aoizora
