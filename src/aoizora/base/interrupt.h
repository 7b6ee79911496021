#pragma once

#include <csignal>

#include "aoizora/base/cancel.h"

namespace aoizora {

/// While alive, Ctrl-C (SIGINT) and SIGTERM request `cancel` instead of ending the process; the handlers that
/// were there before come back at the end. Python sees no signal while C++ works, so long calls hold one of
/// these. At most one at a time in a process.
class InterruptScope {
 public:
  explicit InterruptScope(Cancel& cancel);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction old_interrupt_{};
  struct sigaction old_terminate_{};
};

}  // namespace aoizora
