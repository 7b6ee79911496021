#include "private_world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"

namespace aoizora::testbed {
namespace {

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 70;
  }
  return exit_status(status);
}

void write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const bool good = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!good) user_error("{}: {}", path, std::strerror(error));
}

void leave_host() {
  int flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC;
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (uid != 0) flags |= CLONE_NEWUSER;  // where the kernel lets users be root in a namespace of their own
  if (unshare(flags) != 0) {
    user_error("no network namespaces here ({}): run as root, or in a container with CAP_SYS_ADMIN",
               std::strerror(errno));
  }
  if (uid != 0) {
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", fmt::format("0 {} 1", uid));
    write_file("/proc/self/gid_map", fmt::format("0 {} 1", gid));
  }
}

void mount_or_fail(const char* what, const char* where, const char* type, unsigned long flags) {
  if (mount(what, where, type, flags, nullptr) != 0) {
    user_error("no private {}: {}: run where mounting is allowed", where, std::strerror(errno));
  }
}

/// Process 1 sees its own processes in /proc, and `ip netns` keeps its names in a /run of its own.
void furnish() {
  mount_or_fail("none", "/", nullptr, MS_REC | MS_PRIVATE);
  mount_or_fail("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC);
  mount_or_fail("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV);
}

}  // namespace

int in_private_world(const std::function<int()>& body) {
  std::fflush(nullptr);
  leave_host();
  const pid_t parent = getpid();
  int alive[2];  // the child must not run on if the parent died before prctl
  if (pipe2(alive, O_CLOEXEC) != 0) user_error("pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) user_error("fork: {}", std::strerror(errno));
  if (child == 0) {
    (void)parent;
    close(alive[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char byte = 0;
    if (read(alive[0], &byte, 1) != 1) _exit(70);
    close(alive[0]);
    int code = 70;
    try {
      furnish();
      code = body();
    } catch (const UserError& error) {
      fmt::print(stderr, "{}\n", error.what());
      code = 2;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    std::fflush(nullptr);
    _exit(code);
  }
  close(alive[0]);
  if (write(alive[1], "x", 1) != 1) user_error("pipe: {}", std::strerror(errno));
  close(alive[1]);
  return wait_for(child);
}

std::string why_no_private_world() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::strerror(errno);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return std::strerror(errno);
  if (child == 0) {
    std::string why;
    try {
      in_private_world([] {
        // What the torus is made of: a veth pair with an htb queue.
        feed({"ip", "-batch", "-"}, "link add probe0 type veth peer name probe1\nlink set probe0 up\n");
        feed({"tc", "-batch", "-"}, "qdisc add dev probe0 root handle 1: htb default 2\n");
        return 0;
      }) == 0 ||
          (why = "this kernel or container has no veth interfaces with htb queues", true);
    } catch (const std::exception& error) {
      why = error.what();
    }
    _exit(write(ends[1], why.data(), why.size()) == static_cast<ssize_t>(why.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string why;
  char buffer[512];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    why.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  wait_for(child);
  return why;
}

void enter_fresh_network() {
  AOIZORA_CHECK(unshare(CLONE_NEWNET) == 0, "{}", std::strerror(errno));
  mount_or_fail("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV);  // over the names of the old ones
}

void enter_network(const std::string& name) {
  const std::string path = "/run/netns/" + name;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    throw InternalError(fmt::format("can't enter network {}: {}", name, std::strerror(errno)));
  }
  close(fd);
}

void feed(const std::vector<std::string>& command, const std::string& input) {
  int in[2];
  int out[2];
  AOIZORA_CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "{}", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t child = fork();
  AOIZORA_CHECK(child >= 0, "fork: {}", std::strerror(errno));
  if (child == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  // ip and tc print on errors only, so a full pipe in both directions can't happen before the first error.
  for (std::size_t done = 0; done < input.size();) {
    const ssize_t n = write(in[1], input.data() + done, input.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  close(in[1]);
  std::string printed;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(out[0], buffer, sizeof buffer)) > 0;) {
    printed.append(buffer, static_cast<std::size_t>(n));
  }
  close(out[0]);
  const int status = wait_for(child);
  if (status != 0) {
    throw InternalError(fmt::format("{} failed ({}): {}", fmt::join(command, " "), status,
                                    status == 127 ? "not installed (Debian: iproute2)" : printed));
  }
}

}  // namespace aoizora::testbed
