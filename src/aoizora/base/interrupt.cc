#include "aoizora/base/interrupt.h"

#include <atomic>

#include "aoizora/base/error.h"

namespace aoizora {
namespace {

std::atomic<Cancel*> active{nullptr};
static_assert(std::atomic<Cancel*>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void on_signal(int) {
  if (Cancel* cancel = active.load()) cancel->request();
}

}  // namespace

InterruptScope::InterruptScope(Cancel& cancel) {
  Cancel* expected = nullptr;
  AOIZORA_CHECK(active.compare_exchange_strong(expected, &cancel), "an InterruptScope is already alive");
  struct sigaction action{};
  action.sa_handler = &on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
  active.store(nullptr);
}

}  // namespace aoizora
