#include "aoizora/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "aoizora/base/file.h"
#include "aoizora/compile/stored_compiler.h"

/// The whole pipeline in C++, on what the real compiler answered when it was captured
/// (scripts/capture_pipeline.py).
namespace aoizora {
namespace {

using ::testing::HasSubstr;

const Json kToolchain = {{"captured", "wan2.1-t2v-1.3b on v5e:2x4"}};

PlanRequest request() {
  PlanRequest request;
  request.model = {"wan2.1-t2v-1.3b",
                   Json::parse(R"({"resolution": "480p", "frames": 81, "batch": 1, "cfg": true})")};
  request.slice = "v5e:2x4";
  request.survivors = 3;
  request.toolchain = kToolchain;
  return request;
}

/// Replays the captured answers; a test may change some of them.
class Captured : public compile::Compiler {
 public:
  compile::Outcome<enumerate::ModelDescription> describe(const compile::ModelRef& model,
                                                         const Cancel& cancel) override {
    return replay_.describe(model, cancel);
  }
  compile::Outcome<compile::ShardResult> shard(const compile::ShardJob& job, const Cancel& cancel) override {
    return replay_.shard(job, cancel);
  }
  compile::Outcome<compile::CompileResult> compile(const compile::CompileJob& job,
                                                   const Cancel& cancel) override {
    return replay_.compile(job, cancel);
  }

 private:
  compile::ReplayCompiler replay_{compile::ArtefactStore(std::string(AOIZORA_CASES_DIR) + "/pipeline"),
                                  kToolchain};
};

Json comparable(const plan::Plan& plan) {
  Json json = plan::to_json(plan);
  json.erase("run");
  return json;
}

TEST(Pipeline, PlansWanOnEightChips) {
  Captured compiler;
  std::vector<std::string> stages;
  const plan::Plan plan = make_plan(
      request(), compiler,
      [&](const Event& event) {
        if (event.kind == Event::Kind::kBegin) stages.push_back(event.stage);
      },
      Cancel());
  EXPECT_THAT(stages,
              ::testing::ElementsAre("describe", "enumerate", "shard", "compile", "place", "realise"));
  EXPECT_EQ(plan.device_coords.size(), 8U);
  EXPECT_TRUE(plan.refusals.empty()) << "capture the cases again: " << plan.refusals.front().reason;
  EXPECT_GT(plan.predicted.step.value, 0);
  EXPECT_GE(plan.predicted.step, plan.lower_bound);
  EXPECT_LE(plan.predicted.compute, plan.predicted.step);
  int winners = 0;
  for (const auto& record : plan.candidates) {
    winners += record.status == plan::Status::kWinner ? 1 : 0;
    EXPECT_FALSE(record.reason.empty()) << record.candidate.id();
  }
  EXPECT_EQ(winners, 1);
  for (const auto& baseline : plan.baselines) {
    if (!baseline.step) continue;
    EXPECT_GE(*baseline.step * 1.0001, plan.predicted.step) << baseline.name;
  }
}

TEST(Pipeline, EveryStageDumpsWhatItDecided) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "aoizora-dump";
  fs::remove_all(folder);
  fs::create_directories(folder);
  Captured compiler;
  PlanRequest with_dump = request();
  with_dump.dump_folder = folder.string();
  const plan::Plan plan = make_plan(with_dump, compiler, {}, Cancel());
  for (const char* file : {"1-describe.json", "2-enumerate.json", "3-shard.json", "4-compile.json",
                           "5-place.json", "6-realise.json"}) {
    EXPECT_FALSE(parse_json(read_text(folder / file), file).empty()) << file;
  }
  const Json placed = parse_json(read_text(folder / "5-place.json"), "5-place.json");
  ASSERT_EQ(placed.size(), plan.candidates.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const auto& record = plan.candidates[i];
    EXPECT_EQ(placed[i]["id"], record.candidate.id());
    EXPECT_EQ(placed[i].contains("cost"), record.precompile.has_value());
    EXPECT_EQ(placed[i].contains("placement"), record.predicted.has_value());
    if (record.precompile) {
      EXPECT_DOUBLE_EQ(placed[i]["cost"]["estimate_us"], record.precompile->value);
    }
  }
  std::string name = plan.winner.id() + ".hlo";
  std::replace(name.begin(), name.end(), '/', '_');
  const std::string hlo = read_text(folder / "4-compile" / name);
  EXPECT_THAT(hlo, ::testing::HasSubstr("HloModule"));
}

TEST(Pipeline, TheUsualShardingsStandBesideThePlan) {
  Captured compiler;
  const plan::Plan plan = make_plan(request(), compiler, {}, Cancel());
  std::vector<std::string> names;
  for (const auto& baseline : plan.baselines) {
    if (!baseline.candidate.empty()) names.push_back(baseline.name);
    if (baseline.step || baseline.candidate.empty()) continue;
    EXPECT_THAT(baseline.note, ::testing::ContainsRegex("illegal|pruned|failed")) << baseline.name;
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"maxdiffusion_default", "megatron_tp", "cfg_parallel"}));
}

TEST(Pipeline, TheSameRequestGivesTheSamePlanWithAnyNumberOfJobs) {
  Captured compiler;
  PlanRequest one = request();
  one.jobs = 1;
  PlanRequest many = request();
  many.jobs = 5;
  EXPECT_EQ(comparable(make_plan(one, compiler, {}, Cancel())),
            comparable(make_plan(many, compiler, {}, Cancel())));
}

/// Some compiles fail: by the candidate, or whenever a device order is given.
class Failing final : public Captured {
 public:
  compile::Outcome<compile::CompileResult> compile(const compile::CompileJob& job,
                                                   const Cancel& cancel) override {
    const auto slice = topology::Slice::parse(job.slice);
    const bool row_major =
        topology::placement_from_coordinates(slice, job.device_coords) == topology::row_major(slice);
    if (!row_major) ++orders_asked;
    if (!row_major && refuse_orders_of.contains(job.candidate.id())) {
      return compile::Failure{compile::Failure::Kind::kCompiler, "limited ICI routing"};
    }
    if (die_on.contains(job.candidate.id())) {
      return compile::Failure{compile::Failure::Kind::kDied, "the worker killed by signal 6"};
    }
    return Captured::compile(job, cancel);
  }
  std::set<std::string> refuse_orders_of;
  std::set<std::string> die_on;
  std::atomic<int> orders_asked{0};
};

TEST(Pipeline, AWorkerThatDiesCostsOnlyItsCandidate) {
  Captured compiler;
  const plan::Plan all = make_plan(request(), compiler, {}, Cancel());
  std::string victim;
  for (const auto& record : all.candidates) {
    if (record.status == plan::Status::kCompiled) victim = record.candidate.id();
  }
  ASSERT_FALSE(victim.empty());
  Failing failing;
  failing.die_on = {victim};
  const plan::Plan plan = make_plan(request(), failing, {}, Cancel());
  EXPECT_EQ(plan.winner.id(), all.winner.id());
  EXPECT_EQ(plan.predicted.step, all.predicted.step);
  for (const auto& record : plan.candidates) {
    if (record.candidate.id() != victim) continue;
    EXPECT_EQ(record.status, plan::Status::kFailed);
    EXPECT_EQ(record.reason, "compiling: died: the worker killed by signal 6");
  }
}

TEST(Pipeline, NothingLeftIsAnErrorWithTheReasons) {
  Failing failing;
  Captured compiler;
  for (const auto& record : make_plan(request(), compiler, {}, Cancel()).candidates)
    failing.die_on.insert(record.candidate.id());
  try {
    make_plan(request(), failing, {}, Cancel());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no candidate of wan2.1-t2v-1.3b is left after compiling"));
    EXPECT_THAT(error.what(), HasSubstr("signal 6"));
  }
}

TEST(Pipeline, RefusedDeviceOrdersAreRecordedAndRowMajorIsTheLastResort) {
  Failing failing;
  Captured compiler;
  const plan::Plan all = make_plan(request(), compiler, {}, Cancel());
  for (const auto& record : all.candidates) failing.refuse_orders_of.insert(record.candidate.id());
  const plan::Plan plan = make_plan(request(), failing, {}, Cancel());
  EXPECT_EQ(plan.placement, "row_major");
  EXPECT_EQ(plan.refusals.size(), 6U);
  for (const auto& refusal : plan.refusals) EXPECT_EQ(refusal.reason, "compiler: limited ICI routing");
  const auto slice = topology::Slice::parse("v5e:2x4");
  EXPECT_EQ(topology::placement_from_coordinates(slice, plan.device_coords), topology::row_major(slice));
}

TEST(Pipeline, RefusedDeviceOrdersAreNotTriedAgainInTheNextRun) {
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / "pipeline-refusals" / "refusals.json";
  std::filesystem::remove_all(file.parent_path());
  PlanRequest keeping = request();
  keeping.refusals_file = file.string();
  Failing failing;
  Captured compiler;
  const plan::Plan all = make_plan(request(), compiler, {}, Cancel());
  for (const auto& record : all.candidates) failing.refuse_orders_of.insert(record.candidate.id());
  const plan::Plan first = make_plan(keeping, failing, {}, Cancel());
  EXPECT_EQ(failing.orders_asked, 6);
  const plan::Plan second = make_plan(keeping, failing, {}, Cancel());
  EXPECT_EQ(failing.orders_asked, 6);
  EXPECT_EQ(comparable(first), comparable(second));
  std::filesystem::remove_all(file.parent_path());
}

TEST(Pipeline, NoCompilerSaysWhatToInstall) {
  compile::NullCompiler none;
  try {
    make_plan(request(), none, {}, Cancel());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pip install jax libtpu"));
  }
}

TEST(Pipeline, CtrlCStopsBetweenPieces) {
  Captured compiler;
  Cancel cancel;
  const auto stop_while_sharding = [&](const Event& event) {
    if (event.kind == Event::Kind::kProgress && event.stage == "shard") cancel.request();
  };
  EXPECT_THROW(make_plan(request(), compiler, stop_while_sharding, cancel), Interrupted);
}

TEST(Plan, ReadsBackAndRefusesWhatItIsNot) {
  Captured compiler;
  const Json good = plan::to_json(make_plan(request(), compiler, {}, Cancel()));
  EXPECT_EQ(plan::to_json(plan::from_json(JsonView(good, "p"))), good);

  const auto message = [&](const std::function<void(Json&)>& change) -> std::string {
    Json json = good;
    change(json);
    try {
      plan::from_json(JsonView(json, "p"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([](Json& json) { json["format"] = "x"; }), HasSubstr("not a plan"));
  EXPECT_THAT(message([](Json& json) { json["version"] = 99; }), HasSubstr("plan version 99"));
  EXPECT_THAT(message([](Json& json) { json["device_coords"].erase(0); }),
              HasSubstr("the mesh has 8 positions"));
  EXPECT_NE(message([](Json& json) { json["device_coords"][0] = json["device_coords"][1]; }), "no error");
  EXPECT_THAT(message([](Json& json) { json["predicted"]["step_us"] = -1; }),
              HasSubstr("p.predicted.step_us"));
  EXPECT_THAT(message([](Json& json) { json["mesh"]["shape"][0] = 1LL << 40; }), HasSubstr("mesh.shape[0]"));
  EXPECT_THAT(message([](Json& json) { json.erase("candidates"); }), HasSubstr("`candidates` is missing"));
}

}  // namespace
}  // namespace aoizora
