#include "aoizora/place/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "aoizora/base/file.h"

namespace aoizora::place {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<topology::Coordinates> kOrder = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
const std::vector<topology::Coordinates> kOther = {{0, 0}, {1, 0}, {1, 1}, {0, 1}};

class RefusalsFile : public ::testing::Test {
 protected:
  RefusalsFile()
      : folder_(fs::path(::testing::TempDir()) /
                fmt::format("refusals-{}", ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
  }
  ~RefusalsFile() override { fs::remove_all(folder_); }
  Refusals open(const Json& compiler = {{"libtpu", "1"}}) {
    return {folder_ / "refusals.json", compiler,
            [this](const std::string& text) { warnings_.push_back(text); }};
  }
  fs::path folder_;
  std::vector<std::string> warnings_;
};

TEST_F(RefusalsFile, AreKnownToTheNextRunOnTheSameSliceMeshAndCompilerOnly) {
  open().add("v5e:2x2", {4}, kOrder, "limited ICI routing");
  EXPECT_EQ(open().find("v5e:2x2", {4}, kOrder), "limited ICI routing");
  EXPECT_EQ(open().find("v5e:2x2", {4}, kOther), std::nullopt);
  EXPECT_EQ(open().find("v6e:2x2", {4}, kOrder), std::nullopt);
  EXPECT_EQ(open().find("v5e:2x2", {2, 2}, kOrder), std::nullopt);
  EXPECT_EQ(open({{"libtpu", "2"}}).find("v5e:2x2", {4}, kOrder), std::nullopt);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RefusalsFile, WhatAnotherProcessAddsIsKept) {
  Refusals first = open();
  Refusals second = open();
  first.add("v5e:2x2", {4}, kOrder, "a");
  second.add("v5e:2x2", {4}, kOther, "b");
  EXPECT_EQ(open().find("v5e:2x2", {4}, kOrder), "a");
  EXPECT_EQ(open().find("v5e:2x2", {4}, kOther), "b");
}

TEST_F(RefusalsFile, ACorruptFileIsSetAside) {
  for (const char* text :
       {"{\"format\": \"aoizora.refus", "[]", R"({"format": "x", "version": 1, "orders": []})",
        R"({"format": "aoizora.refusals", "version": 1, "orders": [{"slice": "v5e:2x2"}]})"}) {
    SCOPED_TRACE(text);
    warnings_.clear();
    fs::create_directories(folder_);
    std::ofstream(folder_ / "refusals.json") << text;
    EXPECT_EQ(open().find("v5e:2x2", {4}, kOrder), std::nullopt);
    EXPECT_FALSE(fs::exists(folder_ / "refusals.json"));
    EXPECT_EQ(read_text(folder_ / "refusals.json.corrupt"), text);
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_THAT(warnings_[0], HasSubstr("set aside"));
  }
  open().add("v5e:2x2", {4}, kOrder, "a");
  EXPECT_EQ(open().find("v5e:2x2", {4}, kOrder), "a");
}

TEST_F(RefusalsFile, AFolderThatCannotBeWrittenCostsAWarning) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  Refusals refusals(folder_ / "file" / "refusals.json", {},
                    [this](const std::string& t) { warnings_.push_back(t); });
  refusals.add("v5e:2x2", {4}, kOrder, "a");
  EXPECT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(refusals.find("v5e:2x2", {4}, kOrder), "a");
}

}  // namespace
}  // namespace aoizora::place
