#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/base/interrupt.h"
#include "aoizora/base/json.h"
#include "aoizora/base/parallel.h"
#include "aoizora/base/random.h"
#include "aoizora/base/units.h"

namespace aoizora {
namespace {

using ::testing::HasSubstr;

TEST(Error, NamesFileLineAndColumn) {
  const UserError error("dump.hlo", {3, 14}, "expected a shape");
  EXPECT_STREQ(error.what(), "dump.hlo:3:14: error: expected a shape");
}

TEST(Error, CheckThrowsOurKindOfError) { EXPECT_THROW(AOIZORA_CHECK(1 == 2, "sum is {}", 3), InternalError); }

TEST(Units, BytesOverRateIsMicroseconds) {
  // 33.55 MB * 3/4 over 45 GB/s = 559 us: the line bound of point A in docs.
  const Micros time = Bytes(33'550'000 / 4 * 3) / gigabytes_per_second(45.0);
  EXPECT_NEAR(time.value, 559.2, 0.1);
}

TEST(Parallel, EveryIndexOnceAndLowestFailureWins) {
  for (unsigned workers : {1U, 2U, 7U}) {
    std::vector<std::atomic<int>> seen(100);
    parallel_for(100, workers, [&](std::size_t i) { ++seen[i]; });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
    try {
      parallel_for(50, workers, [](std::size_t i) {
        if (i % 20 == 7) throw std::runtime_error(std::to_string(i));
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
  }
}

TEST(Random, FirstNumbersOfSplitMix64) {
  // Reference values of the published algorithm for seed 1234567.
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
}

class FileTest : public ::testing::Test {
 protected:
  FileTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                fmt::format("aoizora_file_test.{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  write_atomically(folder_ / "a.txt", "hello\n");
  write_atomically(folder_ / "a.txt", "world\n");
  EXPECT_EQ(read_text(folder_ / "a.txt"), "world\n");
  write_atomically(folder_ / "empty", "");
  EXPECT_EQ(read_text(folder_ / "empty"), "");
  // No temporary is left beside it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(FileTest, UnpacksWhatItsContentSays) {
  for (const std::string tool : {"gzip", "xz"}) {
    write_atomically(folder_ / "plain", "HloModule m\n");
    const std::string command =
        tool + " -c " + (folder_ / "plain").string() + " > " + (folder_ / "packed").string();
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(read_text(folder_ / "packed"), "HloModule m\n");
  }
}

TEST_F(FileTest, BadFilesAreTheUsersError) {
  EXPECT_THROW(read_text(folder_ / "missing"), UserError);
  EXPECT_THROW(read_text(folder_), UserError);
  EXPECT_THROW(write_atomically(folder_ / "no" / "such" / "folder", "x"), UserError);
  write_atomically(folder_ / "big", std::string(1000, 'x'));
  EXPECT_THROW(read_text(folder_ / "big", 999), UserError);
}

TEST(Hash, Sha256OfAbc) {
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(JsonText, ErrorsNameThePlace) {
  EXPECT_EQ(message_of([] { parse_json("{\n  \"a\": }", "p.json"); }), "p.json:2:8: error: this is not JSON");
  EXPECT_THAT(message_of([] { parse_json(std::string(300, '['), "p.json"); }), HasSubstr("p.json:1:201"));
  EXPECT_THAT(message_of([] { parse_json("[1e400]", "p.json"); }), HasSubstr("number is too large"));
  const Json value = parse_json(R"({"a": [1, "x", 2.5, 18446744073709551615]})", "p.json");
  const JsonView list = JsonView(value, "p.json").at("a");
  EXPECT_EQ(message_of([&] { list.items()[1].integer(); }), "p.json.a[1]: expected an integer, found \"x\"");
  EXPECT_THAT(message_of([&] { list.items()[3].integer(); }), HasSubstr("below 2^63"));
  EXPECT_THAT(message_of([&] { JsonView(value, "p").at("b"); }), HasSubstr("`b` is missing"));
}

TEST(JsonText, CanonicalFormDoesNotDependOnMemberOrder) {
  EXPECT_EQ(canonical_json(Json::parse(R"({"b":1,"a":{"d":2,"c":3}})")),
            canonical_json(Json::parse(R"({"a":{"c":3,"d":2},"b":1})")));
  EXPECT_NE(canonical_json(Json::parse("[1,2]")), canonical_json(Json::parse("[2,1]")));
}

TEST(Interrupt, SignalRequestsAndOldHandlerComesBack) {
  Cancel cancel;
  {
    const InterruptScope scope(cancel);
    EXPECT_FALSE(cancel.requested());
    std::raise(SIGINT);
    EXPECT_TRUE(cancel.requested());
    EXPECT_THROW(InterruptScope second(cancel), InternalError);
  }
  struct sigaction now{};
  sigaction(SIGINT, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace aoizora
