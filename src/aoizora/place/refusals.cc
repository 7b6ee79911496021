#include "aoizora/place/refusals.h"

#include <algorithm>
#include <utility>

#include "aoizora/base/file.h"

namespace aoizora::place {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "aoizora.refusals";
constexpr std::int64_t kVersion = 1;

/// Whether two entries are of the same order: all but the reason.
bool same_order(const Json& a, const Json& b) {
  return a.at("slice") == b.at("slice") && a.at("mesh") == b.at("mesh") &&
         a.at("device_coords") == b.at("device_coords") && a.at("compiler") == b.at("compiler");
}

}  // namespace

Refusals::Refusals(fs::path file, Json compiler, std::function<void(const std::string&)> warn)
    : file_(std::move(file)), compiler_(std::move(compiler)), warn_(std::move(warn)) {
  orders_ = load();
}

Json Refusals::load() const {
  std::error_code failed;
  if (file_.empty() || !fs::exists(file_, failed)) return Json::array();
  try {
    const std::string name = file_.string();
    const Json document = parse_json(read_text(file_), name);
    const JsonView json(document, name);
    if (json.at("format").string() != kFormat) json.at("format").fail("\"aoizora.refusals\"");
    if (json.at("version").integer() != kVersion) json.at("version").fail("1");
    for (const JsonView& order : json.at("orders").items()) {
      order.at("slice").string();
      order.at("reason").string();
      for (const char* member : {"mesh", "device_coords", "compiler"}) order.at(member);
    }
    return json.at("orders").raw();
  } catch (const UserError& error) {
    fs::rename(file_, file_.string() + ".corrupt", failed);
    if (warn_) warn_(fmt::format("{}: corrupt ({}); set aside and begun anew", file_.string(), error.what()));
    return Json::array();
  }
}

Json Refusals::entry(const std::string& slice, const std::vector<std::int32_t>& mesh,
                     const std::vector<topology::Coordinates>& order) const {
  Json coordinates = Json::array();
  for (const topology::Coordinates& at : order) coordinates.push_back(at);
  return {{"slice", slice}, {"mesh", mesh}, {"device_coords", coordinates}, {"compiler", compiler_}};
}

std::optional<std::string> Refusals::find(const std::string& slice, const std::vector<std::int32_t>& mesh,
                                          const std::vector<topology::Coordinates>& order) const {
  const Json wanted = entry(slice, mesh, order);
  for (const Json& known : orders_) {
    if (same_order(known, wanted)) return known.at("reason").get<std::string>();
  }
  return std::nullopt;
}

void Refusals::add(const std::string& slice, const std::vector<std::int32_t>& mesh,
                   const std::vector<topology::Coordinates>& order, const std::string& reason) {
  if (file_.empty() || find(slice, mesh, order)) return;
  Json added = entry(slice, mesh, order);
  added["reason"] = reason;
  for (const Json& known : load()) {
    if (std::none_of(orders_.begin(), orders_.end(), [&](const Json& own) { return own == known; }))
      orders_.push_back(known);
  }
  orders_.push_back(std::move(added));
  try {
    std::error_code failed;
    fs::create_directories(file_.parent_path(), failed);
    const Json document = {{"format", kFormat}, {"version", kVersion}, {"orders", orders_}};
    write_atomically(file_, document.dump(1) + "\n");
  } catch (const UserError& error) {
    if (warn_) warn_(error.what());
  }
}

}  // namespace aoizora::place
