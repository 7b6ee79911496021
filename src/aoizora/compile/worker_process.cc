#include "aoizora/compile/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "aoizora/base/error.h"

// POSIX leaves the declaration to the program.
extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace aoizora::compile {
namespace {

using Clock = std::chrono::steady_clock;

/// How often limits and cancellation are looked at while a worker is busy.
constexpr int kPollMilliseconds = 50;

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) user_error("no pipe: {}", std::strerror(errno));
  }
};

void close_quietly(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

/// `VmHWM` or `VmRSS` of a process in bytes; 0 when it is gone.
std::int64_t status_bytes(pid_t pid, std::string_view key) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

std::string how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(wait_status), ::strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(wait_status));
}

pid_t spawn(const std::vector<std::string>& argv, const std::vector<std::string>& environment, int in,
            int out, int err) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const auto& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  const auto overridden = [&](std::string_view variable) {
    const auto name = variable.substr(0, variable.find('=') + 1);
    return std::any_of(environment.begin(), environment.end(),
                       [&](const std::string& ours) { return ours.starts_with(name); });
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!overridden(*entry)) variables.push_back(*entry);
  }
  for (const auto& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  variables.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int failed =
      ::posix_spawnp(&pid, argv.front().c_str(), &actions, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) user_error("{}: cannot be started: {}", argv.front(), std::strerror(failed));
  return pid;
}

/// A dead worker makes a write fail with EPIPE; the signal would end our process instead. Blocked for this
/// thread only, so that an embedding program keeps its own handling.
bool write_line(int fd, std::string_view line) {
  sigset_t pipe_signal;
  sigset_t before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  std::string text = std::string(line) + "\n";
  std::string_view rest = text;
  bool good = true;
  while (!rest.empty() && good) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      good = false;
    }
  }
  if (!good) {
    const timespec now{0, 0};
    sigtimedwait(&pipe_signal, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return good;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment) {
  AOIZORA_CHECK(!argv.empty(), "no program");
  Pipe in;
  Pipe out;
  std::FILE* words = std::tmpfile();
  if (words == nullptr) user_error("no temporary file: {}", std::strerror(errno));
  stderr_file_ = ::fcntl(::fileno(words), F_DUPFD_CLOEXEC, 3);
  std::fclose(words);
  to_child_ = in.ends[1];
  from_child_ = out.ends[0];
  try {
    pid_ = spawn(argv, environment, in.ends[0], out.ends[1], stderr_file_);
  } catch (...) {
    for (int* fd : {&in.ends[0], &out.ends[1], &to_child_, &from_child_, &stderr_file_}) close_quietly(*fd);
    throw;
  }
  close_quietly(in.ends[0]);
  close_quietly(out.ends[1]);
}

WorkerProcess::~WorkerProcess() {
  kill_and_reap();
  close_quietly(stderr_file_);
}

void WorkerProcess::kill_and_reap() {
  close_quietly(to_child_);
  close_quietly(from_child_);
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // in case it has not become its own group yet
  while (::waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string WorkerProcess::last_words() const {
  const off_t size = ::lseek(stderr_file_, 0, SEEK_END);
  std::array<char, 4096> buffer{};
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(buffer.size()));
  const ssize_t got = ::pread(stderr_file_, buffer.data(), buffer.size(), from);
  const std::string text(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  // A fatal check of libtpu prints `F0000 ... file.cc:123] message` before its stack; that line says most.
  std::string last;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.front() == 'F' && line.find("] ") != std::string::npos) return line;
    if (line.find_first_not_of(" \t") != std::string::npos) last = line;
    begin = end + 1;
  }
  return last.substr(0, 500);
}

WorkerReply WorkerProcess::died() {
  // Its pipe is closed: give it a moment to end with its own status before we kill what is left.
  bool reaped = false;
  for (int i = 0; i < 40 && !reaped; ++i) {
    reaped = ::waitpid(pid_, &wait_status_, WNOHANG) == pid_;
    if (!reaped) ::usleep(50'000);
  }
  if (reaped) {
    ::kill(-pid_, SIGKILL);  // children it may have left
    pid_ = -1;
  }
  kill_and_reap();
  WorkerReply reply;
  reply.status = WorkerReply::Status::kDied;
  const std::string words = last_words();
  reply.reason = how_it_ended(wait_status_) + (words.empty() ? "" : ": " + words);
  reply.peak_bytes = peak_bytes_;
  return reply;
}

WorkerReply WorkerProcess::stop(WorkerReply::Status status, std::string reason) {
  kill_and_reap();
  WorkerReply reply;
  reply.status = status;
  reply.reason = std::move(reason);
  reply.peak_bytes = peak_bytes_;
  return reply;
}

WorkerReply WorkerProcess::request(std::string_view line, const WorkerLimits& limits, const Cancel& cancel) {
  AOIZORA_CHECK(alive(), "the worker is dead");
  AOIZORA_CHECK(line.find('\n') == std::string_view::npos, "a request is one line");
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  if (!write_line(to_child_, line)) return died();

  while (true) {
    if (const std::size_t end = buffered_.find('\n'); end != std::string::npos) {
      WorkerReply reply;
      reply.line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      reply.seconds = seconds();
      reply.peak_bytes = std::max(peak_bytes_, status_bytes(pid_, "VmHWM:"));
      return reply;
    }
    if (cancel.requested()) return stop(WorkerReply::Status::kCancelled, "interrupted");
    if (seconds() > limits.timeout.count()) {
      return stop(WorkerReply::Status::kTimedOut,
                  fmt::format("no answer within {:.0f} s", limits.timeout.count()));
    }
    peak_bytes_ = std::max(peak_bytes_, status_bytes(pid_, "VmHWM:"));
    if (status_bytes(pid_, "VmRSS:") > limits.memory_bytes) {
      return stop(
          WorkerReply::Status::kOutOfMemory,
          fmt::format("took more than {:.1f} GiB", static_cast<double>(limits.memory_bytes) / (1 << 30)));
    }
    pollfd waiting{from_child_, POLLIN, 0};
    if (::poll(&waiting, 1, kPollMilliseconds) <= 0) continue;
    std::array<char, 1 << 16> chunk{};
    const ssize_t got = ::read(from_child_, chunk.data(), chunk.size());
    if (got > 0) buffered_.append(chunk.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) {
      WorkerReply reply = died();
      reply.seconds = seconds();
      return reply;
    }
  }
}

}  // namespace aoizora::compile
