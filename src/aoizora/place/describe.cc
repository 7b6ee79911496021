#include "aoizora/place/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "aoizora/place/baselines.h"

namespace aoizora::place {
namespace {

using nlohmann::ordered_json;
using topology::Placement;
using topology::Slice;

ordered_json coordinates_json(const Placement& placement, const Slice& slice) {
  ordered_json coordinates = ordered_json::array();
  for (const Chip chip : placement) coordinates.push_back(slice.coordinates(chip));
  return coordinates;
}

ordered_json scored_json(const Scored& scored, const Slice& slice) {
  ordered_json json;
  json["name"] = scored.name;
  if (scored.placement.empty()) {
    json["step_us"] = nullptr;
    json["note"] = scored.note;
    return json;
  }
  json["step_us"] = scored.step.value;
  json["exposed_comm_us"] = scored.exposed.value;
  json["fast_us"] = scored.bound.value;
  json["note"] = scored.note;
  json["coords"] = coordinates_json(scored.placement, slice);
  return json;
}

/// Which group a position is in along an axis, and its place in it.
struct Seat {
  std::size_t group = 0;
  std::int32_t place = 0;
};

std::vector<Seat> seats(const Placement& placement, const LogicalMesh& mesh, std::size_t axis) {
  std::size_t stride = 1;
  for (std::size_t a = axis + 1; a < mesh.shape.size(); ++a)
    stride *= static_cast<std::size_t>(mesh.shape[a]);
  const auto size = static_cast<std::size_t>(mesh.shape[axis]);
  std::vector<Seat> of_chip(placement.size());
  for (std::size_t p = 0; p < placement.size(); ++p) {
    of_chip[placement[p].at()] = {p / (stride * size) * stride + p % stride,
                                  static_cast<std::int32_t>(p / stride % size)};
  }
  return of_chip;
}

std::string label(std::size_t group, std::size_t groups) {
  if (groups <= 26) return std::string(1, static_cast<char>('A' + group));
  if (groups <= 52) return std::string(1, static_cast<char>(group < 26 ? 'A' + group : 'a' + group - 26));
  return fmt::format("{}.", group);
}

bool follows(const Seat& a, const Seat& b, std::int32_t size) {
  if (a.group != b.group) return false;
  const std::int32_t apart = std::abs(a.place - b.place);
  return apart == 1 || (size > 2 && apart == size - 1);
}

/// One x-y plane whose first chip is `base`.
std::string draw_plane(const std::vector<Seat>& of_chip, const Slice& slice, std::size_t base,
                       std::int32_t size, std::size_t groups) {
  const auto step = static_cast<std::size_t>(slice.cores());
  const auto columns = static_cast<std::size_t>(slice.dims()[0]);
  const auto rows = static_cast<std::size_t>(slice.dims()[1]);
  const std::size_t width = label(groups - 1, groups).size() + fmt::format("{}", size - 1).size();
  const auto at = [&](std::size_t x, std::size_t y) { return base + step * (x + columns * y); };
  std::string text;
  for (std::size_t y = 0; y < rows; ++y) {
    std::string line = "  ", below = "  ";
    for (std::size_t x = 0; x < columns; ++x) {
      const Seat& seat = of_chip[at(x, y)];
      line += fmt::format("{:<{}}", label(seat.group, groups) + fmt::format("{}", seat.place), width);
      if (x + 1 < columns) line += follows(seat, of_chip[at(x + 1, y)], size) ? "--" : "  ";
      const bool down = y + 1 < rows && follows(seat, of_chip[at(x, y + 1)], size);
      below += fmt::format("{:<{}}", down ? "|" : "", width + 2);
    }
    const auto trimmed = [](std::string one) {
      one.erase(one.find_last_not_of(' ') + 1);
      return one + "\n";
    };
    text += trimmed(line);
    if (y + 1 < rows) text += trimmed(below);
  }
  return text;
}

std::string milliseconds(Micros time) { return fmt::format("{:.3f} ms", time.value / 1000); }

std::string row(const Scored& scored, Micros best) {
  if (scored.placement.empty()) return fmt::format("  {:<20} {}\n", scored.name, scored.note);
  return fmt::format("  {:<20} {:>12}  {:+7.2f} %  waits {:>12}\n", scored.name, milliseconds(scored.step),
                     100 * (scored.step / best - 1), milliseconds(scored.exposed));
}

}  // namespace

ordered_json ranking_json(const Ranking& ranking, const Slice& slice, const LogicalMesh& mesh,
                          std::size_t top) {
  ordered_json json;
  json["slice"] = slice.name();
  ordered_json shape;
  for (std::size_t a = 0; a < mesh.shape.size(); ++a) shape[mesh.axes[a]] = mesh.shape[a];
  json["mesh"] = shape;
  json["best"] = scored_json(ranking.best, slice);
  json["chosen"] = scored_json(ranking.chosen, slice);
  json["worst"] = scored_json(ranking.worst, slice);
  json["baselines"] = ordered_json::array();
  for (const Scored& baseline : ranking.baselines) json["baselines"].push_back(scored_json(baseline, slice));
  json["lower_bound_us"] = ranking.lower_bound.value;
  json["gap"] = ranking.gap;
  json["exact"] = ranking.exact;
  json["margin"] = ranking.margin;
  json["tie"] = ranking.tie;
  json["ties"] = ranking.ties.size();
  json["evaluated"] = ranking.evaluated;
  json["visited"] = ranking.visited;
  if (ranking.lock_step) {
    json["lock_step"] = {{"exhaustive", ranking.lock_step->exhaustive},
                         {"gap", ranking.lock_step->gap},
                         {"visited", ranking.lock_step->visited}};
  }
  json["replayed"] = ranking.replayed;
  json["by_assumption"] = ordered_json::array();
  for (const ByAssumption& under : ranking.by_assumption) {
    ordered_json one;
    one["assumption"] = under.name;
    one["best"] = scored_json(under.best, slice);
    one["chosen_step_us"] = under.chosen.value;
    one["regret"] = under.regret;
    one["default_step_us"] = under.usual.value;
    json["by_assumption"].push_back(one);
  }
  json["bound_reasons"] = ranking.bound_reasons;
  json["top"] = ordered_json::array();
  for (std::size_t i = 0; i < std::min(top, ranking.top.size()); ++i) {
    json["top"].push_back(scored_json(ranking.top[i], slice));
  }
  json["notes"] = ranking.notes;
  return json;
}

std::string lock_step_text(const Ranking::LockStepCheck& check) {
  if (check.exhaustive) {
    return fmt::format(
        "if devices do not drift apart, no placement is faster by 0.01 %: all were scored or "
        "ruled out, symmetric ones once ({} nodes)",
        check.visited);
  }
  return fmt::format("if devices do not drift apart, the gap is {:.2f} % (not exhaustive: {} nodes)",
                     100 * check.gap, check.visited);
}

std::string ranking_text(const Ranking& ranking, const Slice& slice, const LogicalMesh& mesh,
                         std::size_t top) {
  const Micros best = ranking.best.step;
  std::string text = fmt::format("{} on {}\n\n", mesh_text(mesh), slice.name());
  text +=
      row({"chosen", ranking.chosen.placement, ranking.chosen.step, "", ranking.chosen.exposed, {}}, best);
  text += row({"best", ranking.best.placement, ranking.best.step, "", ranking.best.exposed, {}}, best);
  for (const Scored& baseline : ranking.baselines) text += row(baseline, best);
  text +=
      row({"worst seen", ranking.worst.placement, ranking.worst.step, "", ranking.worst.exposed, {}}, best);
  text += fmt::format("  {:<20} {:>12}  gap {:.2f} %{}\n\n", "lower bound", milliseconds(ranking.lower_bound),
                      100 * ranking.gap, ranking.exact ? ", nothing is faster" : "");
  if (ranking.lock_step) text += "  " + lock_step_text(*ranking.lock_step) + "\n\n";
  text += fmt::format("chosen: {}\nbest:   {}\n", ranking.chosen.name, ranking.best.name);
  if (top > 1) {
    text += "\nbest, distinct:\n";
    for (std::size_t i = 0; i < std::min(top, ranking.top.size()); ++i) {
      text += fmt::format("  {:2} {:>12}  {:+7.2f} %  {}\n", i + 1, milliseconds(ranking.top[i].step),
                          100 * (ranking.top[i].step / best - 1), ranking.top[i].name);
    }
  }
  if (ranking.by_assumption.size() > 1) {
    text += "\nunder each assumption:                     winner        chosen    regret\n";
    for (const ByAssumption& under : ranking.by_assumption) {
      text +=
          fmt::format("  {:<38} {:>12}  {:>12}  {:6.2f} %  {}\n", under.name, milliseconds(under.best.step),
                      milliseconds(under.chosen), 100 * under.regret, under.best.name);
    }
  }
  text += "\n" + draw_axes(ranking.chosen.placement, slice, mesh);
  for (const std::string& note : ranking.notes) text += "note: " + note + "\n";
  text += fmt::format("{} placements scored, {} nodes of branch and bound, {} replays\n", ranking.evaluated,
                      ranking.visited, ranking.replayed);
  return text;
}

std::string draw_axes(const Placement& placement, const Slice& slice, const LogicalMesh& mesh) {
  if (slice.is_graph()) return "";
  const std::size_t plane = static_cast<std::size_t>(slice.dims()[0] * slice.dims()[1] * slice.cores());
  std::string text;
  for (std::size_t axis = 0; axis < mesh.shape.size(); ++axis) {
    if (mesh.shape[axis] < 2) continue;
    const std::vector<Seat> of_chip = seats(placement, mesh, axis);
    const std::size_t groups = placement.size() / static_cast<std::size_t>(mesh.shape[axis]);
    text +=
        fmt::format("axis {} (letter: group, number: place along {}):\n", mesh.axes[axis], mesh.axes[axis]);
    for (std::size_t base = 0; base < placement.size(); base += plane) {
      for (std::size_t core = 0; core < static_cast<std::size_t>(slice.cores()); ++core) {
        if (plane < placement.size() || slice.cores() > 1) {
          const topology::Coordinates& at = slice.coordinates(Chip(static_cast<std::int32_t>(base + core)));
          std::string where;
          for (std::size_t d = 2; d < at.size(); ++d) where += fmt::format("{}{}", d == 2 ? "" : ",", at[d]);
          text += fmt::format(" plane (x,y,{}):\n", where);
        }
        text += draw_plane(of_chip, slice, base + core, mesh.shape[axis], groups);
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace aoizora::place
