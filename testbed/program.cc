#include "program.h"

#include <algorithm>
#include <cmath>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"

namespace aoizora::testbed {
namespace {

using network::Collective;
using network::Kind;
using simulate::Op;
using simulate::Workload;

constexpr Kind kKinds[] = {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce,
                           Kind::kAllToAll,  Kind::kPermute,       Kind::kBroadcast};

Kind kind_from(const JsonView& view) {
  for (const Kind kind : kKinds) {
    if (network::kind_name(kind) == view.string()) return kind;
  }
  view.fail("a kind of collective, like all-gather");
}

/// The letters of the file: compute, start, done, copy start, copy done.
constexpr std::pair<Op::Kind, std::string_view> kOps[] = {{Op::Kind::kCompute, "compute"},
                                                          {Op::Kind::kStart, "start"},
                                                          {Op::Kind::kDone, "done"},
                                                          {Op::Kind::kDmaStart, "copy"},
                                                          {Op::Kind::kDmaDone, "copied"}};

void append(const Workload& workload, std::int32_t block, std::int64_t trips, std::vector<Op>& ops) {
  for (const Op& op : workload.blocks[static_cast<std::size_t>(block)].ops) {
    if (op.kind == Op::Kind::kLoop) {
      for (std::int64_t i = 0; i < std::min(op.trips, trips); ++i) append(workload, op.index, trips, ops);
    } else if (op.kind == Op::Kind::kSync) {
      ops.push_back({Op::Kind::kStart, {}, op.index, 1, {}});
      ops.push_back({Op::Kind::kDone, {}, op.index, 1, {}});
    } else if (op.kind == Op::Kind::kCompute && !ops.empty() && ops.back().kind == Op::Kind::kCompute) {
      ops.back().duration += op.duration;
    } else {
      ops.push_back({op.kind, op.duration, op.index, 1, {}});
    }
  }
}

double rounded(double micros) { return std::round(micros * 1e3) / 1e3; }

Json collective_json(const Collective& collective, const std::string& name) {
  Json json;
  json["name"] = name;
  json["kind"] = network::kind_name(collective.kind);
  json["bytes"] = collective.bytes.value;
  if (!collective.pairs.empty()) {
    for (const auto& [from, to] : collective.pairs) json["pairs"].push_back({from.value, to.value});
  }
  for (const auto& group : collective.groups) {
    Json members = Json::array();
    for (const Partition p : group) members.push_back(p.value);
    json["groups"].push_back(std::move(members));
  }
  const network::AlgorithmHint& hint = collective.hint;
  if (!hint.strategy.empty()) json["strategy"] = hint.strategy;
  if (hint.colors != 0) json["colors"] = hint.colors;
  if (hint.has_reordering_map) json["reorders"] = *hint.has_reordering_map;
  return json;
}

Partition partition_from(const JsonView& view) {
  return Partition(static_cast<std::int32_t>(view.integer()));
}

Collective collective_from(const JsonView& view) {
  Collective collective;
  collective.kind = kind_from(view.at("kind"));
  collective.bytes = Bytes(view.at("bytes").integer());
  if (collective.kind == Kind::kBroadcast) view.fail("a collective other than a broadcast");
  if (const auto groups = view.find("groups")) {
    for (const JsonView& group : groups->items()) {
      auto& members = collective.groups.emplace_back();
      for (const JsonView& member : group.items()) members.push_back(partition_from(member));
    }
  }
  if (const auto pairs = view.find("pairs")) {
    for (const JsonView& pair : pairs->items()) {
      const auto ends = pair.items();
      if (ends.size() != 2) pair.fail("[source, target]");
      collective.pairs.emplace_back(partition_from(ends[0]), partition_from(ends[1]));
    }
  }
  if (const auto strategy = view.find("strategy")) collective.hint.strategy = strategy->string();
  if (const auto colors = view.find("colors")) {
    collective.hint.colors = static_cast<std::int32_t>(colors->integer());
  }
  if (const auto reorders = view.find("reorders")) collective.hint.has_reordering_map = reorders->boolean();
  return collective;
}

Op op_from(const JsonView& view, std::size_t collectives) {
  const auto parts = view.items();
  if (parts.empty()) view.fail("[action, ...]");
  const std::string what = parts[0].string();
  for (const auto& [kind, name] : kOps) {
    if (what != name) continue;
    Op op;
    op.kind = kind;
    const bool timed = kind == Op::Kind::kCompute || kind == Op::Kind::kDmaStart;
    const bool indexed = kind != Op::Kind::kCompute;
    if (parts.size() != 1 + static_cast<std::size_t>(timed) + static_cast<std::size_t>(indexed)) {
      view.fail("compute with a time; start and done with a collective; copy with a number and a time");
    }
    if (indexed) op.index = static_cast<std::int32_t>(parts[1].integer());
    if (timed) op.duration = Micros(parts.back().number());
    const bool names = kind == Op::Kind::kStart || kind == Op::Kind::kDone;
    if (op.index < (indexed ? 0 : -1) || (names && static_cast<std::size_t>(op.index) >= collectives)) {
      view.fail("the number of a collective of this program");
    }
    return op;
  }
  view.fail("compute, start, done, copy or copied");
}

}  // namespace

Workload straightened(const Workload& workload, std::int64_t trips) {
  Workload out = workload;
  out.blocks = {{"step", {}}};
  append(workload, 0, trips, out.blocks[0].ops);
  return out;
}

Workload scaled(const Workload& workload, double bytes, double time) {
  Workload out = workload;
  for (Collective& collective : out.collectives) {
    const double size = std::round(static_cast<double>(collective.bytes.value) * bytes);
    collective.bytes = Bytes(std::max<std::int64_t>(1, static_cast<std::int64_t>(size)));
  }
  for (auto& block : out.blocks) {
    for (Op& op : block.ops) op.duration = Micros(op.duration.value * time);
  }
  return out;
}

Workload with_gloo(const Workload& workload) {
  Workload out = workload;
  for (Collective& collective : out.collectives) {
    if (collective.kind == Kind::kReduceScatter) {
      user_error("a reduce-scatter by Gloo (recursive halving) is not modelled");
    }
    collective.hint = {};
    if (collective.kind == Kind::kAllGather || collective.kind == Kind::kAllReduce) {
      collective.hint.strategy = "UniDirection1DRingStrategy";
      collective.hint.colors = 1;
      collective.hint.has_reordering_map = false;
    }
    if (collective.kind == Kind::kAllReduce) {
      for (auto& group : collective.groups) std::reverse(group.begin(), group.end());
    }
  }
  return out;
}

Json to_json(const Program& program) {
  Json json;
  json["name"] = program.name;
  json["slice"] = program.slice;
  json["source"] = program.source;
  for (std::size_t i = 0; i < program.mesh.axes.size(); ++i) {
    json["mesh"].push_back({program.mesh.axes[i], program.mesh.shape[i]});
  }
  json["partitions"] = program.workload.partitions;
  for (std::size_t c = 0; c < program.workload.collectives.size(); ++c) {
    json["collectives"].push_back(
        collective_json(program.workload.collectives[c], program.workload.collective_names[c]));
  }
  for (const Op& op : program.workload.blocks[0].ops) {
    Json action;
    for (const auto& [kind, name] : kOps) {
      if (kind == op.kind) action.push_back(name);
    }
    if (op.kind != Op::Kind::kCompute) action.push_back(op.index);
    if (op.kind == Op::Kind::kCompute || op.kind == Op::Kind::kDmaStart) {
      action.push_back(rounded(op.duration.value));
    }
    json["actions"].push_back(std::move(action));
  }
  return json;
}

Program read_program(const std::string& file) {
  const Json json = parse_json(read_text(file), file);
  const JsonView view(json, file);
  Program program;
  program.name = view.at("name").string();
  program.slice = view.at("slice").string();
  program.source = view.at("source").string();
  if (const auto mesh = view.find("mesh")) {
    for (const JsonView& axis : mesh->items()) {
      const auto parts = axis.items();
      if (parts.size() != 2) axis.fail("[axis, size]");
      program.mesh.axes.push_back(parts[0].string());
      program.mesh.shape.push_back(static_cast<std::int32_t>(parts[1].integer()));
    }
  }
  simulate::Workload& workload = program.workload;
  workload.partitions = view.at("partitions").integer();
  for (const JsonView& one : view.at("collectives").items()) {
    workload.collectives.push_back(collective_from(one));
    workload.collective_names.push_back(one.at("name").string());
  }
  auto& ops = workload.blocks.emplace_back("step", std::vector<Op>()).ops;
  for (const JsonView& action : view.at("actions").items()) {
    ops.push_back(op_from(action, workload.collectives.size()));
    if (ops.back().kind == Op::Kind::kCompute) workload.compute += ops.back().duration;
  }
  return program;
}

}  // namespace aoizora::testbed
