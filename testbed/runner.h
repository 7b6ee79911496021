#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <vector>

#include "layout.h"
#include "torus.h"

namespace aoizora::testbed {

struct Measured {
  double micros = 0;        // from the common start to the last chip's end
  double busiest_link = 0;  // share of its rate that the busiest link carried, over the run
  double mean_link = 0;     // the same over all links
  double cores = 0;         // processors that the chips' processes kept busy
  double machine = 0;       // share of the whole machine's processors that was busy, with what others do
  double late = 0;          // µs that timers were late, the worst chip
  std::int32_t queued = 0;  // transfers that had to wait for a free slot: should be none
  std::int64_t resent = 0;  // TCP segments sent again: should be none, nothing is lost
  std::vector<double> delivered;  // µs after the start, per flow
};

/// A process per chip, and the runs they do together. Inside a private world with the torus set up.
class Runner {
 public:
  /// Forks the chips. `layouts` must not change afterwards.
  Runner(const Torus& torus, const std::vector<Layout>& layouts);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// InternalError when a chip has died or the run takes longer than `seconds`.
  Measured run(std::size_t layout, double seconds = 60);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace aoizora::testbed
