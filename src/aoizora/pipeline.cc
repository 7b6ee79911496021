#include "aoizora/pipeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "aoizora/base/parallel.h"
#include "aoizora/enumerate/habit.h"
#include "aoizora/pipeline_dump.h"
#include "aoizora/pipeline_stages.h"
#include "aoizora/place/describe.h"
#include "aoizora/place/refusals.h"
#include "aoizora/place/search.h"
#include "aoizora/shard/cost.h"
#include "aoizora/shard/prune.h"
#include "aoizora/simulate/replay.h"
#include "aoizora/simulate/workload.h"

namespace aoizora {
namespace {

/// One candidate on its way through the stages.
struct Track {
  plan::CandidateRecord record;
  std::optional<shard::Cost> cost;
  std::optional<compile::CompileResult> compiled;
  std::optional<simulate::Workload> workload;
  std::optional<place::Ranking> ranking;

  void fail(std::string reason) {
    record.status = plan::Status::kFailed;
    record.reason = std::move(reason);
  }
};

/// A candidate on one placement, as the ranking scored it.
struct Finalist {
  std::size_t track = 0;
  place::Scored scored;
};

std::vector<topology::Coordinates> coordinates_of(const topology::Slice& slice,
                                                  const topology::Placement& placement) {
  std::vector<topology::Coordinates> all;
  all.reserve(placement.size());
  for (const Chip chip : placement) all.push_back(slice.coordinates(chip));
  return all;
}

/// Each refused device order costs a compile. After these many the row-major order is taken, which is known
/// to compile.
constexpr std::size_t kMaxRefusals = 6;

class Pipeline {
 public:
  Pipeline(const PlanRequest& request, compile::Compiler& compiler, const Observer& observer,
           const Cancel& cancel)
      : request_(request),
        compiler_(compiler),
        cancel_(cancel),
        slice_(topology::Slice::parse(request.slice)),
        profile_(request.profile ? *request.profile : network::Profile::builtin(slice_.kind())),
        model_(slice_, profile_),
        stages_(observer, cancel, request.dump_folder),
        learned_(request.refusals_file,
                 {{"toolchain", request.toolchain}, {"compiler_options", request.compiler_options}},
                 [this](const std::string& text) { stages_.warn(text); }) {}

  plan::Plan run() {
    const auto description = stages_.run("describe", [&] { return describe(); });
    stages_.dump([&] { return description.raw; });
    stages_.run("enumerate", [&] { return enumerate_candidates(description); });
    stages_.dump([&] { return candidates_json(); });
    stages_.run("shard", [&] { return shard_candidates(); });
    stages_.dump([&] { return candidates_json(); });
    stages_.run("compile", [&] { return compile_survivors(); });
    stages_.dump([&] { return candidates_json(); });
    const auto finalists = stages_.run("place", [&] { return place_survivors(); });
    stages_.dump([&] { return candidates_json(); });
    const auto winner = stages_.run("realise", [&] { return realise(finalists); });
    plan::Plan plan = write_plan(description, finalists, winner);
    verify(plan);
    stages_.dump([&] { return plan::to_json(plan); });
    return plan;
  }

 private:
  enumerate::ModelDescription describe() {
    auto outcome = compiler_.describe(request_.model, cancel_);
    if (const auto* failure = std::get_if<compile::Failure>(&outcome)) {
      stages_.check();
      user_error("{}", failure->reason);
    }
    return std::get<enumerate::ModelDescription>(std::move(outcome));
  }

  /// What is known of every candidate so far.
  Json candidates_json() const {
    Json list = Json::array();
    for (std::size_t index = 0; index < tracks_.size(); ++index) {
      const Track& track = tracks_[index];
      Json json = {{"id", track.record.candidate.id()}};
      json.update(enumerate::to_json(track.record.candidate));
      const bool open = track.record.status == plan::Status::kIllegal && index < legal_;
      json["status"] = open ? "open" : plan::status_name(track.record.status);
      json["reason"] = track.record.reason;
      if (track.cost) json["cost"] = dump_of(*track.cost);
      if (track.record.memory_bytes) json["memory_bytes"] = *track.record.memory_bytes;
      if (track.ranking) json["placement"] = dump_of(*track.ranking, slice_);
      list.push_back(std::move(json));
    }
    return list;
  }

  std::size_t enumerate_candidates(const enumerate::ModelDescription& description) {
    auto found = enumerate::enumerate(description, static_cast<std::int64_t>(slice_.chips()), request_.space);
    for (auto& candidate : found.legal) {
      Track track;
      track.record.candidate = std::move(candidate);
      tracks_.push_back(std::move(track));
    }
    legal_ = tracks_.size();
    for (auto& illegal : found.illegal) {
      Track track;
      track.record.candidate = std::move(illegal.candidate);
      track.record.status = plan::Status::kIllegal;
      track.record.reason = std::move(illegal.reason);
      tracks_.push_back(std::move(track));
    }
    duplicates_ = found.duplicates;
    if (legal_ == 0) {
      user_error("no sharding of {} is legal on {}: {}", description.name, slice_.name(),
                 tracks_.empty() ? "the space is empty" : tracks_.front().record.reason);
    }
    return legal_;
  }

  std::size_t shard_candidates() {
    parallel_for(legal_, request_.jobs, [&](std::size_t i) {
      if (cancel_.requested()) return;
      shard_one(tracks_[i]);
      stages_.progress(legal_, tracks_[i].record.candidate.id());
    });
    stages_.check();
    std::vector<shard::Cost> costs;
    std::vector<std::string> ids;
    std::vector<std::size_t> index;
    for (std::size_t i = 0; i < legal_; ++i) {
      if (!tracks_[i].cost) continue;
      costs.push_back(*tracks_[i].cost);
      ids.push_back(tracks_[i].record.candidate.id());
      index.push_back(i);
    }
    const auto verdicts = shard::prune(costs, ids, profile_, request_.survivors);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      Track& track = tracks_[index[i]];
      track.record.reason = verdicts[i].reason;
      if (verdicts[i].keep || (request_.compile_habits && habit_of(track.record.candidate))) {
        survivors_.push_back(index[i]);
      } else {
        track.record.status = plan::Status::kPruned;
      }
    }
    // The likely winner first, so that an interrupted run keeps the compiles that matter most.
    std::stable_sort(survivors_.begin(), survivors_.end(), [&](std::size_t a, std::size_t b) {
      return tracks_[a].cost->estimate() < tracks_[b].cost->estimate();
    });
    if (survivors_.empty()) no_survivor("sharding");
    return survivors_.size();
  }

  std::optional<enumerate::Habit> habit_of(const enumerate::Candidate& candidate) const {
    for (auto& habit : enumerate::habits(static_cast<std::int64_t>(slice_.chips()))) {
      if (enumerate::is_habit(candidate, habit)) return std::move(habit);
    }
    return std::nullopt;
  }

  void shard_one(Track& track) {
    auto outcome = compiler_.shard({request_.model, slice_.name(), track.record.candidate}, cancel_);
    if (const auto* failure = std::get_if<compile::Failure>(&outcome)) {
      track.fail(fmt::format("sharding: {}: {}", compile::failure_name(failure->kind), failure->reason));
      return;
    }
    auto& local = std::get<compile::ShardResult>(outcome);
    try {
      const auto program = ir::read_stablehlo(std::move(local.text), track.record.candidate.id() + ".mlir");
      track.cost = shard::cost(program, profile_, model_);
      track.record.precompile = track.cost->estimate();
    } catch (const UserError& error) {
      track.fail(fmt::format("sharding: cannot be read: {}", error.what()));
    }
  }

  std::size_t compile_survivors() {
    parallel_for(survivors_.size(), request_.jobs, [&](std::size_t i) {
      if (cancel_.requested()) return;
      Track& track = tracks_[survivors_[i]];
      compile_one(track);
      stages_.progress(survivors_.size(), track.record.candidate.id());
    });
    stages_.check();
    std::erase_if(survivors_, [&](std::size_t i) { return !tracks_[i].compiled; });
    if (survivors_.empty()) no_survivor("compiling");
    return survivors_.size();
  }

  void compile_one(Track& track) {
    auto outcome =
        compiler_.compile({request_.model, slice_.name(), track.record.candidate,
                           coordinates_of(slice_, topology::row_major(slice_)), request_.compiler_options},
                          cancel_);
    if (const auto* failure = std::get_if<compile::Failure>(&outcome)) {
      track.fail(fmt::format("compiling: {}: {}", compile::failure_name(failure->kind), failure->reason));
      return;
    }
    auto result = std::get<compile::CompileResult>(std::move(outcome));
    track.record.memory_bytes = result.memory.total();
    stages_.dump_text(track.record.candidate.id() + ".hlo", result.hlo);
    if (Bytes(result.memory.total()) > profile_.hbm_capacity) {
      track.fail(fmt::format("compiling: does not fit HBM: the compiler needs {:.2f} GiB a chip",
                             static_cast<double>(result.memory.total()) / (1 << 30)));
      return;
    }
    try {
      track.workload = lower(result.hlo, track.record.candidate.id());
    } catch (const UserError& error) {
      track.fail(fmt::format("compiling: its HLO cannot be read: {}", error.what()));
      return;
    }
    track.record.status = plan::Status::kCompiled;
    track.compiled = std::move(result);
  }

  simulate::Workload lower(const std::string& hlo, const std::string& id) const {
    return simulate::lower(ir::read_hlo(hlo, id + ".hlo"), profile_);
  }

  std::vector<Finalist> place_survivors() {
    std::vector<Finalist> finalists;
    for (const std::size_t i : survivors_) {
      Track& track = tracks_[i];
      place::Options options = request_.search;
      options.workers = request_.jobs;
      track.ranking =
          place::rank(*track.workload, slice_, profile_, track.record.candidate.mesh, options, cancel_);
      stages_.check();
      track.record.predicted = track.ranking->chosen.step;
      finalists.push_back({i, track.ranking->chosen});
      for (const auto& scored : track.ranking->top) {
        if (scored.placement != track.ranking->chosen.placement) finalists.push_back({i, scored});
      }
      stages_.progress(survivors_.size(), track.record.candidate.id());
    }
    // A ranking's choice stands for the best that it ties with, so it is not ranked behind its own ties.
    const auto key = [&](const Finalist& finalist) {
      const place::Ranking& ranking = *tracks_[finalist.track].ranking;
      const bool chosen = finalist.scored.placement == ranking.chosen.placement;
      return std::pair(chosen ? std::min(ranking.best.step, finalist.scored.step) : finalist.scored.step,
                       !chosen);
    };
    std::stable_sort(finalists.begin(), finalists.end(),
                     [&](const Finalist& a, const Finalist& b) { return key(a) < key(b); });
    return finalists;
  }

  struct Winner {
    Finalist finalist;
    simulate::StepTime time;
    compile::CompileResult compiled;
  };

  /// The winner is compiled once more with its own device order: the compiler may refuse it, or choose other
  /// collectives. Then the next best is taken, and the refusal recorded.
  Winner realise(const std::vector<Finalist>& finalists) {
    std::set<std::pair<std::size_t, std::vector<topology::Coordinates>>> tried;
    for (const Finalist& finalist : finalists) {
      if (refusals_.size() == kMaxRefusals) break;
      const auto coordinates = coordinates_of(slice_, finalist.scored.placement);
      if (!tried.emplace(finalist.track, coordinates).second) continue;
      Track& track = tracks_[finalist.track];
      const std::string id = track.record.candidate.id();
      const auto& mesh = track.record.candidate.mesh.shape;
      if (const auto reason = learned_.find(slice_.name(), mesh, coordinates)) {
        refusals_.push_back({id, coordinates, *reason});
        continue;
      }
      auto outcome = compiler_.compile(
          {request_.model, slice_.name(), track.record.candidate, coordinates, request_.compiler_options},
          cancel_);
      stages_.check();
      if (const auto* failure = std::get_if<compile::Failure>(&outcome)) {
        const std::string reason =
            fmt::format("{}: {}", compile::failure_name(failure->kind), failure->reason);
        refusals_.push_back({id, coordinates, reason});
        if (is_of_the_order(*failure)) learned_.add(slice_.name(), mesh, coordinates, reason);
        continue;
      }
      Winner winner{finalist, {}, std::get<compile::CompileResult>(std::move(outcome))};
      const auto workload = lower(winner.compiled.hlo, id);
      winner.time =
          simulate::Replayer(workload, model_).run(finalist.scored.placement, simulate::Mode::kEvent);
      if (const auto other = came_out_differently(winner, finalists)) {
        refusals_.push_back({id, coordinates, *other});
        continue;
      }
      stages_.progress(1, fmt::format("{} on {}", id, finalist.scored.name));
      return winner;
    }
    return on_row_major();
  }

  /// A refusal, or the abort by which libtpu says the same; not what may go better next time.
  static bool is_of_the_order(const compile::Failure& failure) {
    return failure.kind == compile::Failure::Kind::kCompiler ||
           (failure.kind == compile::Failure::Kind::kDied &&
            failure.reason.find("signal 6") != std::string::npos);
  }

  /// The survivors were compiled for row-major order, so one of them can be had on it without another
  /// compile.
  Winner on_row_major() {
    std::optional<Winner> best;
    for (const std::size_t i : survivors_) {
      const topology::Placement placement = topology::row_major(slice_);
      const auto time =
          simulate::Replayer(*tracks_[i].workload, model_).run(placement, simulate::Mode::kEvent);
      if (best && best->time.step <= time.step) continue;
      place::Scored scored;
      scored.name = "row_major";
      scored.placement = placement;
      scored.step = time.step;
      scored.exposed = time.exposed_comm;
      best = Winner{{i, std::move(scored)}, time, *tracks_[i].compiled};
    }
    AOIZORA_CHECK(best.has_value(), "no survivor to fall back to");
    stages_.warn(fmt::format("{} device orders did not compile as promised; the row-major order is taken",
                             refusals_.size()));
    return *std::move(best);
  }

  /// The compiled program of a placement may use other collectives than the one it was ranked by. That
  /// matters when it is slower than what the next finalist promises by more than the model can tell.
  std::optional<std::string> came_out_differently(const Winner& winner,
                                                  const std::vector<Finalist>& finalists) const {
    const Micros promised = winner.finalist.scored.step;
    const Micros error = winner.time.exposed_comm * profile_.stated_error;
    if (winner.time.step <= promised + error) return std::nullopt;
    const auto next = std::find_if(finalists.begin(), finalists.end(), [&](const Finalist& other) {
      return other.track != winner.finalist.track ||
             other.scored.placement != winner.finalist.scored.placement;
    });
    if (next == finalists.end() || winner.time.step <= next->scored.step + error) {
      return std::nullopt;
    }
    return fmt::format("compiled with its own device order it takes {:.1f} us, not {:.1f} us",
                       winner.time.step.value, promised.value);
  }

  [[noreturn]] void no_survivor(const std::string& stage) const {
    // What failed says most; where nothing failed, why the rest was dropped.
    std::string reasons;
    int shown = 0;
    for (const auto status : {plan::Status::kFailed, plan::Status::kPruned}) {
      for (const auto& track : tracks_) {
        if (track.record.status != status || shown == 3) continue;
        reasons += fmt::format("\n  {}: {}", track.record.candidate.id(), track.record.reason);
        ++shown;
      }
    }
    user_error("no candidate of {} is left after {}:{}", request_.model.name, stage, reasons);
  }

  plan::Plan write_plan(const enumerate::ModelDescription& description,
                        const std::vector<Finalist>& finalists, const Winner& winner) {
    Track& track = tracks_[winner.finalist.track];
    track.record.status = plan::Status::kWinner;
    track.record.predicted = winner.time.step;
    const place::Ranking& ranking = *track.ranking;
    plan::Plan plan;
    plan.slice = slice_.name();
    plan.model = description.name;
    plan.model_options = description.options;
    plan.fingerprint = description.fingerprint;
    plan.winner = track.record.candidate;
    plan.device_coords = coordinates_of(slice_, winner.finalist.scored.placement);
    plan.placement = winner.finalist.scored.name;
    plan.predicted = {winner.time.step, winner.time.compute, winner.time.exposed_comm,
                      winner.time.exposed_copies};
    plan.lower_bound = ranking.lower_bound;
    plan.gap = ranking.gap;
    plan.memory = winner.compiled.memory;
    plan.refusals = refusals_;
    add_baselines(plan, ranking);
    add_habits(plan);
    add_alternatives(plan, finalists, winner);
    add_assumptions(plan, winner);
    for (const auto& candidate : tracks_) plan.candidates.push_back(candidate.record);
    add_notes(plan, ranking, *track.workload);
    plan.evidence = {{"toolchain", request_.toolchain},
                     {"compiler_options", request_.compiler_options},
                     {"profile", profile_.name},
                     {"stated_error", profile_.stated_error},
                     {"candidates",
                      {{"legal", legal_},
                       {"illegal", tracks_.size() - legal_},
                       {"duplicates", duplicates_},
                       {"compiled", survivors_.size()}}},
                     {"placements_evaluated", evaluated()}};
    plan.key = plan::plan_key(
        {{"fingerprint", plan.fingerprint},
         {"evidence", {{"toolchain", request_.toolchain}, {"compiler_options", request_.compiler_options}}},
         {"slice", plan.slice},
         {"profile", profile_.name},
         {"version", plan::kVersion}});
    plan.run = {{"stages", stages_.times()}, {"compiles", compiles_json()}};
    return plan;
  }

  std::int64_t evaluated() const {
    std::int64_t sum = 0;
    for (const auto& track : tracks_) sum += track.ranking ? track.ranking->evaluated : 0;
    return sum;
  }

  Json compiles_json() const {
    Json list = Json::array();
    for (const auto& track : tracks_) {
      if (!track.compiled) continue;
      list.push_back({{"id", track.record.candidate.id()},
                      {"seconds", track.compiled->seconds},
                      {"peak_worker_bytes", track.compiled->peak_worker_bytes},
                      {"reused", track.compiled->reused}});
    }
    return list;
  }

  static void add_baselines(plan::Plan& plan, const place::Ranking& ranking) {
    for (const auto& baseline : ranking.baselines) {
      const bool refused = baseline.placement.empty();
      plan.baselines.push_back(
          {baseline.name, refused ? std::nullopt : std::optional(baseline.step), baseline.note});
    }
    plan.baselines.push_back({"worst", ranking.worst.step, ranking.worst.name});
  }

  /// What people run today, sharding and device order: each habit on JAX's default order.
  void add_habits(plan::Plan& plan) const {
    for (const auto& habit : enumerate::habits(static_cast<std::int64_t>(slice_.chips()))) {
      const auto track = std::find_if(tracks_.begin(), tracks_.end(), [&](const Track& one) {
        return enumerate::is_habit(one.record.candidate, habit);
      });
      if (track == tracks_.end()) continue;
      plan::Baseline baseline{habit.name, std::nullopt, habit.what, track->record.candidate.id()};
      if (track->ranking) {
        for (const auto& order : track->ranking->baselines) {
          if (order.name == "create_device_mesh" && !order.placement.empty()) baseline.step = order.step;
        }
      } else {
        baseline.note +=
            fmt::format("; {}: {}", plan::status_name(track->record.status), track->record.reason);
      }
      plan.baselines.push_back(std::move(baseline));
    }
  }

  void add_alternatives(plan::Plan& plan, const std::vector<Finalist>& finalists,
                        const Winner& winner) const {
    for (const auto& finalist : finalists) {
      const bool itself = finalist.track == winner.finalist.track &&
                          finalist.scored.placement == winner.finalist.scored.placement;
      const std::string id = tracks_[finalist.track].record.candidate.id();
      if (itself || refused(finalist)) continue;
      const bool better_placement_of_another = finalist.track != winner.finalist.track;
      if (!plan.runner_up && better_placement_of_another) {
        plan.runner_up = plan::RunnerUp{id, finalist.scored.name, finalist.scored.step};
        plan.margin = finalist.scored.step / winner.time.step - 1;
      }
      // The model's error is one of communication times: what no step waits for cannot be wrong.
      if (finalist.scored.step <= winner.time.step + finalist.scored.exposed * profile_.stated_error)
        plan.ties.push_back(fmt::format("{} on {}", id, finalist.scored.name));
    }
  }

  bool refused(const Finalist& finalist) const {
    const auto coordinates = coordinates_of(slice_, finalist.scored.placement);
    const std::string id = tracks_[finalist.track].record.candidate.id();
    return std::any_of(refusals_.begin(), refusals_.end(), [&](const plan::Refusal& refusal) {
      return refusal.candidate == id && refusal.device_coords == coordinates;
    });
  }

  /// What JAX's default order takes under an assumption: the reason to leave it, or to keep it.
  std::optional<Micros> usual_order(const std::string& assumption, const Winner& winner) const {
    const Track& track = tracks_[winner.finalist.track];
    const auto usual = place::create_device_mesh(slice_, track.record.candidate.mesh);
    if (!usual.placement) return std::nullopt;
    for (const auto& assumptions : place::all_assumptions()) {
      if (place::assumption_name(assumptions) != assumption) continue;
      const network::Model model(slice_, profile_, assumptions);
      return simulate::Replayer(*track.workload, model).run(*usual.placement, simulate::Mode::kEvent).step;
    }
    return std::nullopt;
  }

  void add_assumptions(plan::Plan& plan, const Winner& winner) const {
    for (const auto& mine : tracks_[winner.finalist.track].ranking->by_assumption) {
      plan::AssumptionRecord record{mine.name, plan.winner.id(), mine.best.step, mine.chosen,
                                    usual_order(mine.name, winner)};
      for (const std::size_t i : survivors_) {
        for (const auto& other : tracks_[i].ranking->by_assumption) {
          if (other.name != mine.name || !(other.best.step < record.best)) continue;
          record.best = other.best.step;
          record.winner = tracks_[i].record.candidate.id();
        }
      }
      plan.by_assumption.push_back(std::move(record));
    }
  }

  void add_notes(plan::Plan& plan, const place::Ranking& ranking, const simulate::Workload& workload) const {
    plan.notes.push_back(
        fmt::format("{} placements of the winner's program were scored, {} nodes of branch and bound "
                    "visited; none can be faster than {:.1f} us under the model ({} search, gap {:.2f} %)",
                    ranking.evaluated, ranking.visited, ranking.lower_bound.value,
                    ranking.exact ? "exact" : "heuristic", ranking.gap * 100));
    if (ranking.lock_step) plan.notes.push_back(place::lock_step_text(*ranking.lock_step));
    for (const auto& note : ranking.notes) plan.notes.push_back(note);
    std::set<std::vector<std::int32_t>> meshes;
    for (const std::size_t i : survivors_) meshes.insert(tracks_[i].record.candidate.mesh.shape);
    if (meshes.size() == 1 && survivors_.size() > 1) {
      plan.notes.push_back("all survivors share one mesh; --top-k compiles more candidates");
    }
    if (workload.unpriced.value > 0.01 * workload.compute.value) {
      plan.notes.push_back(fmt::format("ops that no rule prices are {:.1f} % of the compute",
                                       100 * (workload.unpriced / workload.compute)));
    }
    for (const auto& warning : workload.warnings) plan.notes.push_back(warning);
  }

  /// The plan must read back to itself: what is written is what a server will load.
  static void verify(const plan::Plan& plan) {
    const Json json = plan::to_json(plan);
    const Json again = plan::to_json(plan::from_json(JsonView(json, "plan")));
    AOIZORA_CHECK(json == again, "the plan does not read back to itself");
  }

  const PlanRequest& request_;
  compile::Compiler& compiler_;
  const Cancel& cancel_;
  topology::Slice slice_;
  network::Profile profile_;
  network::Model model_;
  Stages stages_;
  std::vector<Track> tracks_;
  std::size_t legal_ = 0;
  std::int64_t duplicates_ = 0;
  std::vector<std::size_t> survivors_;
  std::vector<plan::Refusal> refusals_;
  place::Refusals learned_;
};

}  // namespace

plan::Plan make_plan(const PlanRequest& request, compile::Compiler& compiler, const Observer& observer,
                     const Cancel& cancel) {
  return Pipeline(request, compiler, observer, cancel).run();
}

}  // namespace aoizora
