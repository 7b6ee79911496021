#include "aoizora/pipeline_dump.h"

namespace aoizora {
namespace {

Json dump_of(const place::Scored& scored, const topology::Slice& slice) {
  Json json = {{"name", scored.name}};
  if (!scored.note.empty()) json["note"] = scored.note;
  if (scored.placement.empty()) return json;
  json["step_us"] = scored.step.value;
  json["exposed_comm_us"] = scored.exposed.value;
  json["device_coords"] = Json::array();
  for (const Chip chip : scored.placement) json["device_coords"].push_back(slice.coordinates(chip));
  return json;
}

Json dump_of(const std::vector<place::Scored>& list, const topology::Slice& slice) {
  Json json = Json::array();
  for (const auto& scored : list) json.push_back(dump_of(scored, slice));
  return json;
}

}  // namespace

Json dump_of(const shard::Cost& cost) {
  Json collectives = Json::array();
  for (const auto& collective : cost.collectives) {
    collectives.push_back({{"kind", network::kind_name(collective.kind)},
                           {"bytes", collective.bytes.value},
                           {"groups", collective.groups},
                           {"group_size", collective.group_size},
                           {"executions", collective.executions},
                           {"each_us", collective.each.value}});
  }
  return {{"estimate_us", cost.estimate().value},         {"compute_us", cost.compute.value},
          {"compute_floor_us", cost.compute_floor.value}, {"comm_us", cost.comm.value},
          {"argument_bytes", cost.arguments.value},       {"live_bytes", cost.live.value},
          {"collectives", std::move(collectives)},        {"warnings", cost.warnings}};
}

Json dump_of(const place::Ranking& ranking, const topology::Slice& slice) {
  return {{"chosen", dump_of(ranking.chosen, slice)},
          {"best", dump_of(ranking.best, slice)},
          {"worst", dump_of(ranking.worst, slice)},
          {"baselines", dump_of(ranking.baselines, slice)},
          {"ties", dump_of(ranking.ties, slice)},
          {"lower_bound_us", ranking.lower_bound.value},
          {"gap", ranking.gap},
          {"exact", ranking.exact},
          {"evaluated", ranking.evaluated},
          {"replayed", ranking.replayed},
          {"bound_reasons", ranking.bound_reasons},
          {"notes", ranking.notes}};
}

}  // namespace aoizora
