#include "hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "aoizora/base/error.h"
#include "private_world.h"

namespace aoizora::testbed {
namespace {

/// In the child: becomes the host. Does not return.
[[noreturn]] void become(std::int32_t host, std::size_t hosts, const std::vector<std::string>& command) {
  const std::string name = host_network(host);
  enter_network(name);
  AOIZORA_CHECK(unshare(CLONE_NEWUTS | CLONE_NEWNS) == 0, "unshare: {}", std::strerror(errno));
  AOIZORA_CHECK(sethostname(name.c_str(), name.size()) == 0, "sethostname: {}", std::strerror(errno));
  const std::string file = fmt::format("/run/hosts-{}", host);  // /run is the world's own
  {
    std::ofstream out(file);
    out << "127.0.0.1 localhost\n";
    for (std::size_t h = 0; h < hosts; ++h) {
      const auto number = static_cast<std::int32_t>(h);
      out << address(number) << ' ' << host_network(number) << '\n';
    }
  }
  AOIZORA_CHECK(mount(file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0, "/etc/hosts: {}",
                std::strerror(errno));
  setenv("AOIZORA_HOST", std::to_string(host).c_str(), 1);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output is for the answers
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  fmt::print(stderr, "can't run {}\n", words[0]);
  _exit(127);
}

}  // namespace

void start_hosts(std::size_t hosts, const std::vector<std::string>& command) {
  std::fflush(nullptr);
  for (std::size_t h = 0; h < hosts; ++h) {
    const pid_t child = fork();
    AOIZORA_CHECK(child >= 0, "fork");
    if (child != 0) continue;
    try {
      become(static_cast<std::int32_t>(h), hosts, command);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      _exit(70);
    }
  }
}

int serve_plugs(const Torus& torus) {
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    topology::Placement plugs;
    for (std::int32_t chip = 0; words >> chip;) plugs.emplace_back(chip);
    torus.plug_all(plugs);
    fmt::print("plugged\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace aoizora::testbed
