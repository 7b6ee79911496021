#include "aoizora/ir/backend_config.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace aoizora::ir {
namespace {

using Json = nlohmann::json;

/// The compiler prints 64-bit numbers as strings (proto3 JSON).
std::optional<double> number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  if (!found->is_string()) return std::nullopt;
  const auto& text = found->get_ref<const std::string&>();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> integer(const Json& object, const char* key) {
  const auto value = number(object, key);
  // 2^53: beyond it a double no longer holds each integer, and no cycle or trip count gets there.
  if (!value || *value < -9007199254740992.0 || *value > 9007199254740992.0) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::string string_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Text behind `key`, `:` or `=` and blanks; nullopt when the key is not there as a word.
std::optional<std::string_view> after(std::string_view text, std::string_view key) {
  std::size_t at = 0;
  while ((at = text.find(key, at)) != std::string_view::npos) {
    const bool word = at == 0 || std::string_view("abcdefghijklmnopqrstuvwxyz_").find(text[at - 1]) ==
                                     std::string_view::npos;
    at += key.size();
    const std::size_t next = text.find_first_not_of(' ', at);
    if (!word || next == std::string_view::npos || (text[next] != ':' && text[next] != '=')) continue;
    const std::size_t value = text.find_first_not_of(' ', next + 1);
    return value == std::string_view::npos ? std::string_view() : text.substr(value);
  }
  return std::nullopt;
}

std::optional<std::int64_t> debug_integer(std::string_view debug, std::string_view key) {
  const auto text = after(debug, key);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// `{4 4},{4 4} …` → lists of numbers.
std::vector<std::vector<std::int64_t>> debug_lists(std::string_view debug, std::string_view key) {
  std::vector<std::vector<std::int64_t>> lists;
  auto text = after(debug, key).value_or("");
  while (text.starts_with('{')) {
    const std::size_t close = text.find('}');
    if (close == std::string_view::npos) break;
    auto& list = lists.emplace_back();
    const char* at = text.data() + 1;
    const char* const end = text.data() + close;
    while (at < end) {
      std::int64_t value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      if (error == std::errc()) list.push_back(value);
      at = error == std::errc() ? next : at + 1;
    }
    text.remove_prefix(close + 1);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  return lists;
}

CollectiveAlgorithm algorithm(const Json& config) {
  CollectiveAlgorithm result;
  result.emitter = string_of(config, "emitter");
  result.strategy = string_of(config, "strategy");
  result.debug = string_of(config, "debug");
  const std::string_view debug = result.debug;
  result.colors = debug_integer(debug, "colors");
  result.phases = debug_integer(debug, "phases");
  result.cores = debug_lists(debug, "cores");
  result.dims_used = debug_lists(debug, "dim_used");
  if (const auto map = after(debug, "has_reordering_map")) {
    result.has_reordering_map = map->starts_with("true") || map->starts_with('1');
  }
  result.group_size = debug_integer(debug, "group_size");
  result.shard_bytes = debug_integer(debug, "shard_size");
  return result;
}

/// The object under `key`; null when there is none.
const Json* child(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

}  // namespace

std::optional<std::int64_t> estimated_cycles(const Instruction& instruction) {
  const std::string_view config = instruction.attribute("backend_config").value_or("");
  constexpr std::string_view kKey = "\"estimated_cycles\":";
  const std::size_t at = config.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view text = config.substr(at + kKey.size());
  if (text.starts_with('"')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<BackendConfig> read_backend_config(const Instruction& instruction) {
  const std::string_view text = instruction.attribute("backend_config").value_or("");
  if (!text.starts_with('{')) return std::nullopt;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  BackendConfig result;
  result.estimated_cycles = integer(json, "estimated_cycles");
  if (const Json* const window = child(json, "window_config")) {
    result.estimated_cycles = integer(*window, "estimated_cycles");
  }
  if (const Json* const config = child(json, "collective_algorithm_config")) {
    result.algorithm = algorithm(*config);
  }
  if (const Json* const trips = child(json, "known_trip_count")) {
    result.known_trip_count = integer(*trips, "n");
  }
  const Json* const kernel = child(json, "custom_call_config");
  if (const Json* const cost = kernel == nullptr ? nullptr : child(*kernel, "cost_estimate")) {
    result.kernel_cost = KernelCost{
        number(*cost, "flops").value_or(0), number(*cost, "transcendentals").value_or(0),
        number(*cost, "bytes_accessed").value_or(0), number(*cost, "remote_bytes_transferred").value_or(0)};
  }
  return result;
}

}  // namespace aoizora::ir
