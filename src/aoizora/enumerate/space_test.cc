#include "aoizora/enumerate/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

namespace aoizora::enumerate {
namespace {

using ::testing::HasSubstr;

/// 12 heads, a sequence of 32,768 and a batch of 2: Wan 2.1 1.3B with guidance.
ModelDescription wan() {
  const Json json = Json::parse(R"({
    "name": "wan", "options": {}, "fingerprint": "00", "tokens": 32760, "padded_tokens": 32768,
    "flops_per_step": 1e15, "tensors": [],
    "axes": {"activation_batch": [2], "activation_length": [32768], "activation_heads": [12],
             "heads": [1536], "mlp": [8960], "embed": [1536], "norm": [1536]},
    "attention": {"strategies": ["head_parallel", "all_gather_kv", "ulysses"], "heads": 12, "kv_heads": 12}
  })");
  return description_from_json(JsonView(json, "test"));
}

TEST(Factorisations, OfTwelveOverTwoAxes) {
  const std::vector<std::vector<std::int64_t>> expected{{1, 12}, {2, 6}, {3, 4}, {4, 3}, {6, 2}, {12, 1}};
  EXPECT_EQ(ordered_factorisations(12, 2), expected);
}

TEST(Factorisations, AreDistinctAndMultiplyBack) {
  rc::check([] {
    const auto n = *rc::gen::inRange<std::int64_t>(1, 257);
    const auto parts = *rc::gen::inRange<std::size_t>(1, 5);
    const auto all = ordered_factorisations(n, parts);
    RC_ASSERT(std::set(all.begin(), all.end()).size() == all.size());
    for (const auto& factors : all) {
      std::int64_t product = 1;
      for (const auto factor : factors) product *= factor;
      RC_ASSERT(factors.size() == parts && product == n);
    }
  });
}

TEST(Enumerate, EightChipsByHand) {
  Space space = Space::builtin();
  space.variants = {{}};
  const Enumeration found = enumerate(wan(), 8, space);
  std::vector<std::string> ids;
  for (const auto& candidate : found.legal) ids.push_back(candidate.id());
  // data is 1 or 2 (batch), tensor 1, 2 or 4 (12 heads); Ulysses needs tensor x context to divide 12.
  EXPECT_THAT(ids, ::testing::ElementsAre(
                       "data=1,context=2,tensor=4/all_gather_kv", "data=1,context=4,tensor=2/all_gather_kv",
                       "data=1,context=8,tensor=1/all_gather_kv", "data=2,context=1,tensor=4/head_parallel",
                       "data=2,context=2,tensor=2/all_gather_kv", "data=2,context=2,tensor=2/ulysses",
                       "data=2,context=4,tensor=1/all_gather_kv", "data=2,context=4,tensor=1/ulysses"));
}

TEST(Enumerate, SaysWhyACandidateIsIllegal) {
  const Enumeration found = enumerate(wan(), 16, Space::builtin());
  const auto reason = [&](const std::string& id) -> std::string {
    for (const auto& illegal : found.illegal) {
      if (illegal.candidate.id() == id) return illegal.reason;
    }
    return "not there";
  };
  EXPECT_EQ(reason("data=1,context=1,tensor=16/head_parallel/whole-weights"),
            "activation_heads of size 12 does not divide by 16");
  EXPECT_THAT(reason("data=1,context=16,tensor=1/ulysses/whole-weights"),
              HasSubstr("12 heads do not divide by 16"));
  EXPECT_THAT(reason("data=16,context=1,tensor=1/head_parallel/whole-weights"),
              HasSubstr("activation_batch of size 2"));
}

TEST(Enumerate, NoTwoCandidatesAreTheSameProgram) {
  const Enumeration found = enumerate(wan(), 16, Space::builtin());
  std::set<std::string> keys;
  for (const auto& candidate : found.legal)
    EXPECT_TRUE(keys.insert(candidate.canonical_key()).second) << candidate.id();
  EXPECT_GT(found.duplicates, 0);
}

TEST(Candidate, NamesOfAxesAndAxesOfSizeOneCarryNoMeaning) {
  Candidate a{{{"data", "context"}, {1, 4}}, {{"activation_length", {"context"}}}, "ulysses", ""};
  const Candidate b{{{"sequence"}, {4}}, {{"activation_length", {"sequence"}}}, "ulysses", "other"};
  EXPECT_EQ(a.canonical_key(), b.canonical_key());
  a.attention = "ring";
  EXPECT_NE(a.canonical_key(), b.canonical_key());
  a.mesh.shape = {4, 1};
  EXPECT_THAT(a.canonical_key(), HasSubstr("local"));
}

TEST(Candidate, RoundTripsThroughJson) {
  const Enumeration found = enumerate(wan(), 16, Space::builtin());
  for (const auto& candidate : found.legal) {
    const Json json = to_json(candidate);
    const Candidate back = candidate_from_json(JsonView(json, "test"));
    EXPECT_EQ(back.id(), candidate.id());
    EXPECT_EQ(to_json(back), json);
  }
}

TEST(Candidate, BadJsonNamesTheMember) {
  const auto message = [](const std::string& text) -> std::string {
    const Json json = Json::parse(text);
    try {
      candidate_from_json(JsonView(json, "c"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(R"({"mesh": {"axes": ["a"], "shape": [0]}})"),
              HasSubstr("c.mesh.shape[0]: expected a size"));
  EXPECT_THAT(message(R"({"mesh": {"axes": ["a"], "shape": [2, 2]}})"), HasSubstr("as many sizes as axes"));
  EXPECT_THAT(
      message(R"({"mesh": {"axes": ["a"], "shape": [2]}, "axis_rules": [["x", ["b"]]], "attention": ""})"),
      HasSubstr("`b`, which is no axis"));
}

TEST(Space, ErrorsNameTheFile) {
  try {
    Space::parse(R"({"mesh_axes": ["a"], "attention": [], "rules": [["x", ["b"]]]})", "space.json");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "space.json.rules[0][1][0]: expected one of the mesh axes a, found \"b\"");
  }
  Space space = Space::builtin();
  space.attention = {"sparse"};
  EXPECT_THROW(enumerate(wan(), 8, space), UserError);
}

}  // namespace
}  // namespace aoizora::enumerate
