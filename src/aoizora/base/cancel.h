#pragma once

#include <atomic>
#include <chrono>
#include <optional>

namespace aoizora {

/// Tells long work to stop: Ctrl-C sets it from a signal handler, a budget sets a deadline.
/// Work that is stopped keeps what it has; nothing already computed is lost.
class Cancel {
 public:
  Cancel() = default;
  explicit Cancel(std::chrono::steady_clock::time_point deadline) : deadline_(deadline) {}

  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept {
    return requested_.load(std::memory_order_relaxed) ||
           (deadline_ && std::chrono::steady_clock::now() >= *deadline_);
  }

 private:
  std::atomic<bool> requested_{false};
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

}  // namespace aoizora
