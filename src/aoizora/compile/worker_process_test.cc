#include "aoizora/compile/worker_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "aoizora/base/error.h"

namespace aoizora::compile {
namespace {

using Status = WorkerReply::Status;
using ::testing::HasSubstr;

/// Processes of a group that still run (a zombie that nobody has reaped yet does not).
int running_in_group(pid_t group) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string text;
    std::getline(stat, text);
    const std::size_t after_name = text.rfind(')');
    if (after_name == std::string::npos) continue;
    std::istringstream fields(text.substr(after_name + 1));
    std::string state;
    pid_t parent = 0;
    pid_t its_group = 0;
    fields >> state >> parent >> its_group;
    if (its_group == group && state != "Z") ++count;
  }
  return count;
}

WorkerProcess shell(const std::string& script) {
  return WorkerProcess({"/bin/sh", "-c", script}, {"TOLD=42"});
}

TEST(WorkerProcess, AnswersLineForLine) {
  WorkerProcess worker = shell("while read line; do echo \"got $line $TOLD\"; done");
  const Cancel cancel;
  for (const std::string word : {"a", "b"}) {
    const WorkerReply reply = worker.request(word, {}, cancel);
    EXPECT_EQ(reply.status, Status::kOk);
    EXPECT_EQ(reply.line, "got " + word + " 42");
    EXPECT_GT(reply.peak_bytes, 0);
  }
}

TEST(WorkerProcess, DeathIsExplainedByItsLastWords) {
  WorkerProcess worker =
      shell("read line; echo noise >&2; echo 'F0000 00:00 x.cc:12] Check failed' >&2; kill -6 $$");
  const WorkerReply reply = worker.request("x", {}, Cancel());
  EXPECT_EQ(reply.status, Status::kDied);
  EXPECT_THAT(reply.reason, HasSubstr("killed by signal 6"));
  EXPECT_THAT(reply.reason, HasSubstr("Check failed"));
  EXPECT_FALSE(worker.alive());
}

TEST(WorkerProcess, AWorkerThatIsGoneBeforeTheRequestIsADeathToo) {
  WorkerProcess worker = shell("exit 3");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const WorkerReply reply = worker.request("x", {}, Cancel());
  EXPECT_EQ(reply.status, Status::kDied);
  EXPECT_THAT(reply.reason, HasSubstr("exit code 3"));
}

TEST(WorkerProcess, TimeAndMemoryLimitsKill) {
  WorkerProcess slow = shell("read line; sleep 60");
  EXPECT_EQ(slow.request("x", {std::chrono::milliseconds(100), 1 << 30}, Cancel()).status, Status::kTimedOut);
  WorkerProcess big = shell("read line; sleep 60");
  EXPECT_EQ(big.request("x", {std::chrono::seconds(30), 1000}, Cancel()).status, Status::kOutOfMemory);
}

TEST(WorkerProcess, CancelKillsTheWholeGroup) {
  WorkerProcess worker = shell("read line; sleep 61 & sleep 60");
  const pid_t group = worker.pid();
  Cancel cancel;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancel.request();
  });
  EXPECT_EQ(running_in_group(group), 1);
  EXPECT_EQ(worker.request("x", {}, cancel).status, Status::kCancelled);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(running_in_group(group), 0);
}

TEST(WorkerProcess, AProgramThatDoesNotExistIsTheUsersError) {
  EXPECT_THROW(WorkerProcess({"/no/such/program"}, {}), UserError);
}

}  // namespace
}  // namespace aoizora::compile
