#pragma once

#include <cstddef>
#include <functional>

namespace aoizora {

/// Calls body(i) for i in [0, count) on up to `workers` threads (0 = as many as the machine has).
/// Results must go to slot i, so that they do not depend on the number of workers (determinism).
/// The exception of the lowest i that threw is rethrown after all threads have ended.
void parallel_for(std::size_t count, unsigned workers, const std::function<void(std::size_t)>& body);

}  // namespace aoizora
