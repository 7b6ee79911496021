#include "runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "aoizora/base/error.h"
#include "chip_process.h"
#include "shared.h"

namespace aoizora::testbed {
namespace {

/// Busy and all ticks of the machine since it started.
std::pair<double, double> machine_ticks() {
  std::FILE* file = std::fopen("/proc/stat", "r");
  AOIZORA_CHECK(file != nullptr, "/proc/stat");
  double value[10] = {};
  const int read = std::fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", value, value + 1, value + 2,
                               value + 3, value + 4, value + 5, value + 6, value + 7);
  std::fclose(file);
  AOIZORA_CHECK(read == 8, "/proc/stat");
  double all = 0;
  for (const double v : value) all += v;
  return {all - value[3] - value[4], all};  // without idle and waiting for disks
}

}  // namespace

struct Runner::Impl {
  const Torus& torus;
  const std::vector<Layout>& layouts;
  Shared* shared = nullptr;
  std::vector<int> wake;
  std::vector<pid_t> children;

  std::size_t chips() const { return torus.slice().chips(); }

  void check_alive() const {
    for (std::size_t c = 0; c < chips(); ++c) {
      if (shared->chips[c].error[0] != '\0') {
        throw InternalError(fmt::format("chip {}: {}", c, shared->chips[c].error.data()));
      }
    }
  }

  /// Waits until all chips have counted up; wakes when one writes to the parent's eventfd.
  void wait_for(const std::atomic<std::int32_t>& counter, double seconds) {
    const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
    while (counter.load() < static_cast<std::int32_t>(chips())) {
      pollfd poll_of{wake.back(), POLLIN, 0};
      if (poll(&poll_of, 1, 200) > 0) {
        std::uint64_t count = 0;
        if (read(wake.back(), &count, sizeof count) < 0) continue;
      }
      check_alive();
      if (now_ns() > deadline) throw InternalError("the chips did not finish in time");
    }
  }

  void child(std::size_t c) {
    try {
      ChipProcess chip(torus, Chip(static_cast<std::int32_t>(c)), *shared, wake);
      meet();
      chip.connect_all();
      meet();
      chip.accept_all();
      for (std::int32_t done = 0;;) {
        std::int32_t run = shared->run.load();
        while (run == done) {
          chip.idle();
          run = shared->run.load();
        }
        if (run < 0) return;
        done = run;
        chip.run(layouts[static_cast<std::size_t>(shared->layout)]);
      }
    } catch (const std::exception& error) {
      std::snprintf(shared->chips[c].error.data(), shared->chips[c].error.size(), "%s", error.what());
      const std::uint64_t one = 1;
      if (write(wake.back(), &one, sizeof one) < 0) return;
    }
  }

  /// A barrier of the set-up, where time does not matter.
  void meet() const {
    const std::int32_t mine = shared->met.fetch_add(1);
    const auto all = static_cast<std::int32_t>(chips());
    while (shared->met.load() < (mine / all + 1) * all) usleep(500);
  }

  void wake_all() const {
    const std::uint64_t one = 1;
    for (std::size_t c = 0; c < chips(); ++c) {
      AOIZORA_CHECK(write(wake[c], &one, sizeof one) == sizeof one, "eventfd");
    }
  }
};

Runner::Runner(const Torus& torus, const std::vector<Layout>& layouts)
    : impl_(std::make_unique<Impl>(Impl{torus, layouts, nullptr, {}, {}})) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  AOIZORA_CHECK(memory != MAP_FAILED, "mmap");
  impl_->shared = new (memory) Shared;
  for (std::size_t i = 0; i <= impl_->chips(); ++i) {
    impl_->wake.push_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  }
  std::fflush(nullptr);
  for (std::size_t c = 0; c < impl_->chips(); ++c) {
    const pid_t pid = fork();
    AOIZORA_CHECK(pid >= 0, "fork");
    if (pid == 0) {
      impl_->child(c);
      _exit(0);
    }
    impl_->children.push_back(pid);
  }
}

Runner::~Runner() {
  impl_->shared->run.store(-1);
  for (const pid_t pid : impl_->children) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  for (const int fd : impl_->wake) close(fd);
  munmap(impl_->shared, sizeof(Shared));
}

Measured Runner::run(std::size_t layout, double seconds) {
  Shared& shared = *impl_->shared;
  const Layout& plan = impl_->layouts[layout];
  if (shared.run.load() == 0) {  // the chips are still meeting: two barriers
    const std::int64_t deadline = now_ns() + 60'000'000'000;
    while (shared.met.load() < static_cast<std::int32_t>(2 * impl_->chips())) {
      impl_->check_alive();
      if (now_ns() > deadline) throw InternalError("the chips did not connect");
      usleep(1000);
    }
  }
  for (std::size_t u = 0; u < plan.units.size(); ++u) shared.arrived[u].store(0);
  for (std::size_t f = 0; f < plan.flows.size(); ++f) shared.delivered[f].store(0);
  shared.layout = static_cast<std::int32_t>(layout);
  shared.ready.store(0);
  shared.finished.store(0);
  shared.start.store(0);
  shared.run.fetch_add(1);
  impl_->wake_all();
  impl_->wait_for(shared.ready, seconds);
  const auto before = machine_ticks();
  const std::int64_t start = now_ns() + 3'000'000;
  shared.start.store(start);
  impl_->wake_all();
  impl_->wait_for(shared.finished, seconds);
  const auto after = machine_ticks();
  impl_->wake_all();  // those that wait for the others to finish
  impl_->wait_for(shared.counted, seconds);
  shared.counted.store(0);

  Measured result;
  double cpu = 0;
  for (std::size_t c = 0; c < impl_->chips(); ++c) {
    const ChipResult& one = shared.chips[c];
    result.micros = std::max(result.micros, static_cast<double>(one.end - start) / 1e3);
    result.late = std::max(result.late, static_cast<double>(one.late) / 1e3);
    result.queued += one.queued;
    result.resent += one.resent;
    cpu += static_cast<double>(one.cpu) / 1e3;
  }
  result.cores = cpu / result.micros;
  const double ticks = after.second - before.second;
  result.machine = ticks > 0 ? (after.first - before.first) / ticks : 0;
  const auto links = impl_->torus.slice().links().size();
  for (std::size_t l = 0; l < links; ++l) {
    const double rate = impl_->torus.rate_mbit(Link(static_cast<std::int32_t>(l))) / 8;
    const double use = static_cast<double>(shared.link_bytes[l]) / (rate * result.micros);
    result.busiest_link = std::max(result.busiest_link, use);
    result.mean_link += use / static_cast<double>(links);
  }
  for (std::size_t f = 0; f < plan.flows.size(); ++f) {
    result.delivered.push_back(static_cast<double>(shared.delivered[f].load() - start) / 1e3);
  }
  return result;
}

}  // namespace aoizora::testbed
