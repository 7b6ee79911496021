#include "aoizora/topology/describe.h"

#include <fmt/format.h>

#include <algorithm>

namespace aoizora::topology {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view class_name(LinkClass link_class) {
  switch (link_class) {
    case LinkClass::kIci:
      return "ici";
    case LinkClass::kCore:
      return "core";
    case LinkClass::kDcn:
      return "dcn";
    case LinkClass::kGraph:
      return "graph";
  }
  return "";
}

std::size_t count_of(const Slice& slice, LinkClass link_class) {
  return static_cast<std::size_t>(
      std::count_if(slice.links().begin(), slice.links().end(),
                    [&](const auto& link) { return link.link_class == link_class; }));
}

Json end_of(const Slice& slice, Chip chip) {
  return chip.valid() ? Json(slice.coordinates(chip)) : Json(nullptr);
}

std::int32_t size_of(const Slice& slice, std::size_t dim) {
  return dim < slice.dims().size() ? slice.dims()[dim] : 1;
}

/// Whether a chip has a link along a dimension; a link around counts when `around`.
bool linked(const Slice& slice, Chip chip, std::int32_t dim, bool around) {
  if (dim >= std::ssize(slice.dims())) {
    return false;
  }
  const std::int32_t at = slice.grid(chip)[static_cast<std::size_t>(dim)];
  const bool last = at == size_of(slice, static_cast<std::size_t>(dim)) - 1;
  return slice.neighbour_link(chip, dim, true).valid() && last == around;
}

/// One plane, y upwards: rows of chip numbers joined by links.
std::string draw_plane(const Slice& slice, std::int32_t z) {
  const auto width = fmt::formatted_size("{}", slice.chips() - 1);
  const std::int32_t columns = size_of(slice, 0);
  std::string drawing;
  for (std::int32_t y = size_of(slice, 1); y-- > 0;) {
    std::string chips = "  ";
    std::string links = "  ";
    for (std::int32_t x = 0; x < columns; ++x) {
      const std::int32_t at[] = {x, y, z};
      const Chip chip = slice.at(at);
      chips += fmt::format("{:>{}}", chip.value, width);
      chips += linked(slice, chip, 0, false) ? "--" : linked(slice, chip, 0, true) ? "~" : "";
      // A row of links stands below its chips: to the row below, or around at the last.
      const bool below = y > 0 && slice.neighbour_link(chip, 1, false).valid();
      const bool around = y == 0 && slice.dims().size() > 1 && slice.wraps(1);
      links += fmt::format("{:>{}}  ", below ? "|" : around ? "~" : "", width);
    }
    drawing += chips + "\n";
    if (links.find_first_not_of(' ') != std::string::npos) {
      links.erase(links.find_last_not_of(' ') + 1);
      drawing += links + "\n";
    }
  }
  return drawing;
}

std::string wrap_text(const Slice& slice) {
  std::string text;
  for (std::size_t d = 0; d < slice.dims().size(); ++d) {
    if (slice.wraps(static_cast<std::int32_t>(d))) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", "xyz"[d]);
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::size_t bisection_links(const Slice& slice) {
  std::size_t longest = slice.dims().size();
  for (std::size_t d = 0; d < slice.dims().size(); ++d) {
    if (size_of(slice, d) % 2 == 0 &&
        (longest == slice.dims().size() || size_of(slice, d) > size_of(slice, longest))) {
      longest = d;
    }
  }
  if (longest == slice.dims().size()) {
    return 0;
  }
  const std::int32_t half = size_of(slice, longest) / 2;
  return static_cast<std::size_t>(
      std::count_if(slice.links().begin(), slice.links().end(), [&](const auto& link) {
        return link.link_class == LinkClass::kIci && slice.slice_of(link.from) == 0 &&
               (slice.grid(link.from)[longest] < half) != (slice.grid(link.to)[longest] < half);
      }));
}

Json topology_json(const Slice& slice) {
  Json json;
  json["slice"] = slice.name();
  json["kind"] = slice.kind();
  json["chips"] = slice.chips() / static_cast<std::size_t>(slice.cores());
  json["devices"] = slice.chips();
  json["dims"] = slice.dims();
  json["wrap"] = Json::array();
  for (std::size_t d = 0; d < slice.dims().size(); ++d) {
    json["wrap"].push_back(slice.wraps(static_cast<std::int32_t>(d)));
  }
  json["twisted"] = slice.twisted();
  json["slices"] = slice.slices();
  json["hosts"] = slice.hosts();
  json["directed_links"] = slice.links().size();
  json["bisection_links"] = bisection_links(slice);
  json["coordinates"] = Json::array();
  json["host_of"] = Json::array();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(slice.chips()); ++i) {
    json["coordinates"].push_back(slice.coordinates(Chip(i)));
    json["host_of"].push_back(slice.host_of(Chip(i)));
  }
  json["links"] = Json::array();
  for (const DirectedLink& link : slice.links()) {
    Json one{{"from", end_of(slice, link.from)},
             {"to", end_of(slice, link.to)},
             {"class", class_name(link.link_class)}};
    if (link.bandwidth.value > 0) {
      one["bandwidth_gbps"] = link.bandwidth.value / 1e3;
    }
    if (link.latency.value >= 0) {
      one["latency_us"] = link.latency.value;
    }
    json["links"].push_back(std::move(one));
  }
  return json;
}

std::string topology_text(const Slice& slice) {
  std::string text =
      fmt::format("{}: {} chips", slice.name(), slice.chips() / static_cast<std::size_t>(slice.cores()));
  if (slice.cores() > 1) {
    text += fmt::format(" of {} devices", slice.cores());
  }
  if (slice.is_graph()) {
    return text + fmt::format(", {} directed links\n", slice.links().size());
  }
  text += fmt::format(", {} {}, wrap: {}{}\n", fmt::join(slice.dims(), "x"),
                      wrap_text(slice) == "none" ? "mesh" : "torus", wrap_text(slice),
                      slice.twisted() ? ", twisted" : "");
  text += fmt::format("{} directed ICI links, {} of them across the bisection; {} hosts\n",
                      count_of(slice, LinkClass::kIci), bisection_links(slice), slice.hosts());
  if (slice.slices() > 1) {
    text += fmt::format("{} slices joined by the data-centre network, one uplink per host\n", slice.slices());
  }
  constexpr std::int32_t kWidest = 16;
  constexpr std::int32_t kMostPlanes = 4;
  const std::int32_t planes = size_of(slice, 2);
  if (size_of(slice, 0) > kWidest) {
    return text;
  }
  for (std::int32_t z = 0; z < std::min(planes, kMostPlanes); ++z) {
    text += planes > 1 ? fmt::format("\nz = {}\n", z) : "\n";
    text += draw_plane(slice, z);
  }
  if (planes > kMostPlanes) {
    text += fmt::format("\n... and {} planes more\n", planes - kMostPlanes);
  }
  text += "\nchip numbers; x to the right, y upwards; -- and | are links, ~ goes around\n";
  return text;
}

}  // namespace aoizora::topology
