#include "aoizora/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace aoizora {

void parallel_for(std::size_t count, unsigned workers, const std::function<void(std::size_t)>& body) {
  const std::size_t wanted = workers == 0 ? std::max(1U, std::thread::hardware_concurrency()) : workers;
  const std::size_t threads = std::min(wanted, count);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t failed_at = count;
  std::exception_ptr failure;

  const auto run = [&] {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };

  if (threads <= 1) {
    run();
  } else {
    std::vector<std::jthread> pool;
    pool.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t) pool.emplace_back(run);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace aoizora
