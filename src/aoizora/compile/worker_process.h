#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/cancel.h"

namespace aoizora::compile {

struct WorkerLimits {
  std::chrono::duration<double> timeout{600};
  std::int64_t memory_bytes = std::int64_t{4} << 30;  // resident, of the worker itself
};

struct WorkerReply {
  enum class Status : std::uint8_t { kOk, kDied, kTimedOut, kOutOfMemory, kCancelled };
  Status status{};
  std::string line;    // the reply, without the newline (kOk)
  std::string reason;  // one line (otherwise): `killed by signal 6 (Aborted): <last line of its stderr>`
  double seconds = 0;
  std::int64_t peak_bytes = 0;
};

/// A child process that answers one line on stdout for each line on stdin. Its stderr goes to an unnamed
/// temporary file, of which the last lines explain a death. The child is its own process group, so Ctrl-C in
/// the terminal does not reach it: we decide. The destructor kills and reaps it.
/// Not thread-safe; one request at a time. UserError when the program cannot be started.
class WorkerProcess {
 public:
  /// `environment` are `NAME=value` added to ours.
  WorkerProcess(const std::vector<std::string>& argv, const std::vector<std::string>& environment);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// After any status but kOk the process is dead.
  WorkerReply request(std::string_view line, const WorkerLimits& limits, const Cancel& cancel);
  bool alive() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

 private:
  WorkerReply died();
  WorkerReply stop(WorkerReply::Status status, std::string reason);
  void kill_and_reap();
  std::string last_words() const;

  pid_t pid_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
  int stderr_file_ = -1;
  int wait_status_ = 0;
  std::string buffered_;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace aoizora::compile
