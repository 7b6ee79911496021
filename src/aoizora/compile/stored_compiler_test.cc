#include "aoizora/compile/stored_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "aoizora/base/file.h"

namespace aoizora::compile {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Counts what it is asked and answers with fixed texts.
class CountingCompiler final : public Compiler {
 public:
  Outcome<enumerate::ModelDescription> describe(const ModelRef&, const Cancel&) override {
    return Failure{Failure::Kind::kDied, "the worker was killed"};
  }
  Outcome<ShardResult> shard(const ShardJob&, const Cancel&) override {
    ++shards;
    return Failure{Failure::Kind::kUnsupported, "reverse on a sharded dimension"};
  }
  Outcome<CompileResult> compile(const CompileJob& job, const Cancel&) override {
    ++compiles;
    return CompileResult{"HloModule " + job.slice, {1, 2, 3, 0, 4}, 1.5, 1000, false};
  }
  int shards = 0;
  int compiles = 0;
};

class StoredCompilerTest : public ::testing::Test {
 protected:
  StoredCompilerTest()
      : folder_(fs::path(::testing::TempDir()) / fmt::format("aoizora_store_test.{}", ::getpid())) {
    fs::remove_all(folder_);
  }
  ~StoredCompilerTest() override { fs::remove_all(folder_); }

  StoredCompiler stored(Json toolchain = {{"libtpu", "1"}}) {
    return {ArtefactStore(folder_, [this](const std::string& text) { warnings_.push_back(text); }),
            std::move(toolchain), inner_};
  }
  fs::path only_file(const std::string& extension) const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path().extension() == extension) return entry.path();
    }
    return {};
  }

  fs::path folder_;
  std::shared_ptr<CountingCompiler> inner_ = std::make_shared<CountingCompiler>();
  std::vector<std::string> warnings_;
  CompileJob job_{{"wan", Json::object()}, "v5e:2x4", {}, {{0, 0}}, Json::object()};
};

TEST_F(StoredCompilerTest, CompilesOnceAndAnswersTheSame) {
  const auto first = std::get<CompileResult>(stored().compile(job_, Cancel()));
  const auto second = std::get<CompileResult>(stored().compile(job_, Cancel()));
  EXPECT_EQ(inner_->compiles, 1);
  EXPECT_FALSE(first.reused);
  EXPECT_TRUE(second.reused);
  EXPECT_EQ(second.hlo, "HloModule v5e:2x4");
  EXPECT_EQ(second.memory.total(), 10);
}

TEST_F(StoredCompilerTest, AnythingTheResultDependsOnIsInTheKey) {
  stored().compile(job_, Cancel());
  stored({{"libtpu", "2"}}).compile(job_, Cancel());
  job_.device_coords = {{1, 0}};
  stored().compile(job_, Cancel());
  job_.compiler_options["xla_x"] = true;
  stored().compile(job_, Cancel());
  EXPECT_EQ(inner_->compiles, 4);
}

TEST_F(StoredCompilerTest, RefusalsAreKeptAndDeathsAreNot) {
  const ShardJob job{job_.model, "v5e:2x4", {}};
  for (int i = 0; i < 2; ++i) {
    const auto outcome = stored().shard(job, Cancel());
    EXPECT_EQ(std::get<Failure>(outcome).kind, Failure::Kind::kUnsupported);
    EXPECT_EQ(std::get<Failure>(outcome).reason, "reverse on a sharded dimension");
  }
  EXPECT_EQ(inner_->shards, 1);
  stored().describe(job_.model, Cancel());
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder_), {}), 3)
      << "the refusal's folder and two files";
}

TEST_F(StoredCompilerTest, ACorruptEntryIsSetAsideAndMadeAgain) {
  stored().compile(job_, Cancel());
  write_atomically(only_file(".text"), "HloModule other");
  EXPECT_EQ(std::get<CompileResult>(stored().compile(job_, Cancel())).hlo, "HloModule v5e:2x4");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("another hash"));
  EXPECT_TRUE(fs::exists(only_file(".corrupt")));

  write_atomically(only_file(".json"), "{\"sha256\": ");
  stored().compile(job_, Cancel());
  fs::remove(only_file(".text"));
  stored().compile(job_, Cancel());
  EXPECT_EQ(inner_->compiles, 4);
  EXPECT_EQ(warnings_.size(), 3U);
}

TEST_F(StoredCompilerTest, ReplayAnswersFromWhatWasCaptured) {
  stored().compile(job_, Cancel());
  ReplayCompiler replay(ArtefactStore(folder_), {{"libtpu", "1"}});
  EXPECT_EQ(std::get<CompileResult>(replay.compile(job_, Cancel())).hlo, "HloModule v5e:2x4");
  job_.slice = "v5e:4x4";
  EXPECT_THAT(std::get<Failure>(replay.compile(job_, Cancel())).reason, HasSubstr("not captured"));
}

TEST_F(StoredCompilerTest, AFolderThatCannotBeMadeIsTheUsersError) {
  write_atomically(fs::path(::testing::TempDir()) / fmt::format("aoizora_a_file.{}", ::getpid()), "");
  EXPECT_THROW(
      ArtefactStore(fs::path(::testing::TempDir()) / fmt::format("aoizora_a_file.{}", ::getpid()) / "cache"),
      UserError);
}

}  // namespace
}  // namespace aoizora::compile
