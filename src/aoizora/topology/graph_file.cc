#include "aoizora/topology/graph_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/topology/builder.h"
#include "aoizora/topology/check.h"

namespace aoizora::topology {
namespace {

using Json = nlohmann::json;

[[noreturn]] void wrong(const std::string& file, const std::string& message) {
  throw UserError(fmt::format("{}: {}", file, message));
}

Json parse_json(std::string_view text, const std::string& file) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    wrong(file, fmt::format("not JSON (byte {})", error.byte));
  }
}

/// A number of a link, or nothing when it is left out.
double link_number(const Json& link, const char* key, double least, const std::string& where) {
  const auto found = link.find(key);
  if (found == link.end()) {
    return -1;
  }
  if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() < least ||
      (least == 0 && std::string_view(key) == "bandwidth_gbps" && found->get<double>() == 0)) {
    wrong(where, fmt::format("`{}` is {}; it must be a number above zero (a link that is down is left out)",
                             key, found->dump()));
  }
  return found->get<double>();
}

std::int32_t node_of(const Json& link, const char* key, std::int32_t nodes, const std::string& where) {
  const auto found = link.find(key);
  if (found == link.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0 ||
      found->get<std::int64_t>() >= nodes) {
    wrong(where, fmt::format("`{}` must be a node, 0 to {}", key, nodes - 1));
  }
  return found->get<std::int32_t>();
}

void set_speed(DirectedLink& target, const Json& link, const std::string& where) {
  const double bandwidth = link_number(link, "bandwidth_gbps", 0, where);
  const double latency = link_number(link, "latency_us", 0, where);
  if (bandwidth > 0) {
    target.bandwidth = gigabytes_per_second(bandwidth);
  }
  if (latency >= 0) {
    target.latency = Micros(latency);
  }
}

const Json& list_of_links(const Json& json, const std::string& file) {
  const auto links = json.find("links");
  if (links == json.end() || !links->is_array()) {
    wrong(file, "a graph needs a list `links`");
  }
  return *links;
}

bool one_way(const Json& link, const std::string& where) {
  const auto found = link.find("one_way");
  if (found != link.end() && !found->is_boolean()) {
    wrong(where, "`one_way` is true or false");
  }
  return found != link.end() && found->get<bool>();
}

Slice whole_graph(const Json& json, const std::string& file) {
  constexpr std::int64_t kMost = 4096;  // the tables of routes are nodes * nodes
  const auto nodes = json.find("nodes");
  if (nodes == json.end() || !nodes->is_number_integer() || nodes->get<std::int64_t>() < 1 ||
      nodes->get<std::int64_t>() > kMost) {
    wrong(file, fmt::format("`nodes` must be a whole number from 1 to {}", kMost));
  }
  const auto count = nodes->get<std::int32_t>();
  std::vector<DirectedLink> links;
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  for (const Json& link : list_of_links(json, file)) {
    const std::string where = fmt::format("{}: link {}", file, links.size());
    if (!link.is_object()) {
      wrong(where, "a link is an object with `from` and `to`");
    }
    DirectedLink made{.from = Chip(node_of(link, "from", count, where)),
                      .to = Chip(node_of(link, "to", count, where)),
                      .link_class = LinkClass::kGraph};
    if (made.from == made.to) {
      wrong(where, fmt::format("node {} is linked to itself", made.from.value));
    }
    set_speed(made, link, where);
    for (int way = 0; way < (one_way(link, where) ? 1 : 2); ++way) {
      if (!seen.emplace(made.from.value, made.to.value).second) {
        wrong(where,
              fmt::format("{} to {} is given twice; one link with the sum of the bandwidths says the same",
                          made.from.value, made.to.value));
      }
      links.push_back(made);
      std::swap(made.from, made.to);
    }
  }
  const std::string name =
      json.contains("name") && json["name"].is_string() ? json["name"].get<std::string>() : file;
  return SliceBuilder::graph(name, count, links);
}

Slice changed_slice(const Json& json, const std::string& file) {
  if (!json["slice"].is_string()) {
    wrong(file, "`slice` is a slice's name, as in `v5e:4x4`");
  }
  Slice slice = Slice::parse(json["slice"].get<std::string>());
  std::size_t index = 0;
  for (const Json& link : list_of_links(json, file)) {
    const std::string where = fmt::format("{}: link {}", file, index++);
    const auto chip = [&](const char* key) {
      try {
        return slice.at(link.at(key).get<Coordinates>());
      } catch (const Json::exception&) {
        wrong(where, fmt::format("`{}` must be coordinates, as in [0, 1]", key));
      }
    };
    const Chip from = chip("from");
    const Chip to = chip("to");
    DirectedLink speed;
    set_speed(speed, link, where);
    const bool there = SliceBuilder::change_link(slice, from, to, speed);
    if (!there || (!one_way(link, where) && !SliceBuilder::change_link(slice, to, from, speed))) {
      wrong(where, "no link joins these two chips");
    }
  }
  return slice;
}

}  // namespace

Slice parse_graph(std::string_view json_text, const std::string& file) {
  const Json json = parse_json(json_text, file);
  if (!json.is_object()) {
    wrong(file, "a topology is a JSON object with `nodes` and `links`, or `slice` and `links`");
  }
  Slice slice = json.contains("slice") ? changed_slice(json, file) : whole_graph(json, file);
  check_slice(slice);
  return slice;
}

Slice load_slice(const std::string& name_or_file) {
  return name_or_file.ends_with(".json") ? parse_graph(read_text(name_or_file), name_or_file)
                                         : Slice::parse(name_or_file);
}

Placement parse_order(const Slice& slice, std::string_view json_text, const std::string& file) {
  Json json = parse_json(json_text, file);
  for (const char* key : {"best", "coords", "coordinates"}) {
    if (json.is_object() && json.contains(key)) {
      json = Json(json[key]);
    }
  }
  std::vector<Coordinates> coordinates;
  try {
    coordinates = json.get<std::vector<Coordinates>>();
  } catch (const Json::exception&) {
    wrong(file, "an order is a list of coordinates by mesh position, as in [[0, 0], [1, 0]]");
  }
  try {
    return placement_from_coordinates(slice, coordinates);
  } catch (const UserError& error) {
    wrong(file, error.what());
  }
}

}  // namespace aoizora::topology
