#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "torus.h"

/// What the processes of one measurement share besides the links: memory, mapped before they fork. Nothing
/// that is measured goes through it, only arrivals (rule N5), completions, and results.
namespace aoizora::testbed {

inline constexpr std::size_t kMostUnits = 1 << 14;
inline constexpr std::size_t kMostFlows = 1 << 18;
inline constexpr std::size_t kMostLinks = 128;

struct ChipResult {
  std::int64_t end = 0;     // ns, CLOCK_MONOTONIC, when the chip's last action was over
  std::int64_t cpu = 0;     // ns of processor time of its process during the run
  std::int64_t late = 0;    // ns by which its timers were late, summed
  std::int32_t queued = 0;  // flows that found no free slot
  std::int64_t resent = 0;  // TCP segments that its connections sent again
  std::array<char, 200> error{};
};

struct Shared {
  // The order of the day, written by the parent between runs.
  std::atomic<std::int32_t> run{0};  // number of the run to do; -1: go home
  std::int32_t layout = 0;
  std::atomic<std::int32_t> met{0};  // barriers of the set-up
  std::atomic<std::int32_t> ready{0};
  std::atomic<std::int32_t> finished{0};
  std::atomic<std::int32_t> counted{0};  // chips that have written link_bytes
  std::atomic<std::int64_t> start{0};    // ns, CLOCK_MONOTONIC; 0: not yet
  std::array<ChipResult, kMostChips> chips;
  std::array<std::int64_t, kMostLinks> link_bytes;  // frames that left during the run
  std::array<std::atomic<std::int32_t>, kMostUnits> arrived;
  std::array<std::atomic<std::int64_t>, kMostFlows> delivered;  // ns, CLOCK_MONOTONIC; 0: not yet
};

}  // namespace aoizora::testbed
