#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout.h"
#include "shared.h"

namespace aoizora::testbed {

/// ns of CLOCK_MONOTONIC, which all processes share.
std::int64_t now_ns();

/// One chip: a process in the chip's namespace that executes its part of a layout. Compute is waiting; what
/// it sends and receives are TCP bytes over the links. One thread, one epoll loop: the network is served
/// while it waits, as a DMA engine would.
class ChipProcess {
 public:
  /// Enters the chip's namespace and listens. `wake` are one eventfd a chip, and the parent's at the end.
  ChipProcess(const Torus& torus, Chip self, Shared& shared, std::span<const int> wake);
  ~ChipProcess();
  ChipProcess(const ChipProcess&) = delete;
  ChipProcess& operator=(const ChipProcess&) = delete;

  /// One connection for each ordered pair and slot. Every chip must have been constructed before `connect`,
  /// and have connected before `accept`.
  void connect_all();
  void accept_all();

  /// Executes one run; returns when the chip has done its last action. The result goes to `shared`.
  void run(const Layout& layout);

  /// Between runs: waits until somebody wakes this chip.
  void idle() { serve(0); }

  /// Bytes that have left on each of the chip's links, ever.
  void count_links(std::vector<std::pair<Link, std::int64_t>>& counts) const;
  /// TCP segments that were sent again, ever: of a chip's namespace.
  std::int64_t count_resent() const;

 private:
  struct Outgoing {
    int fd = -1;
    std::int32_t flow = -1;  // -1: free
    std::int64_t sent = 0;   // payload
    std::size_t header_left = 0;
    bool writable = true;
    std::uint64_t used = 0;  // when last, to take the longest unused slot
  };
  struct Incoming {
    int fd = -1;
    std::int32_t from = 0;
    std::size_t header_have = 0;
    std::array<char, 16> header{};
    std::int32_t flow = -1;
    std::int64_t left = 0;
  };
  struct UnitState {
    bool mine = false;
    bool begun = false;
    std::int32_t phase = -1;             // whose flows this member sends
    std::vector<std::int32_t> incoming;  // per phase, flows to this member that are not through
    std::int32_t left = 0;               // flows from or to this member that are not through
  };

  Outgoing& outgoing(std::int32_t to, std::int32_t slot);
  void prepare(const Layout& layout);
  void serve(std::int64_t until);
  void poke(std::int32_t chip) const;
  void poked();
  bool advance();
  bool execution_done(std::int32_t execution) const;
  void arrive(std::int32_t execution);
  void begin_if_complete(std::int32_t unit);
  void send_phase(std::int32_t unit);
  void send_flow(std::int32_t flow);
  void push(Outgoing& connection, std::int32_t to);
  void pull(Incoming& connection);
  void received(std::int32_t flow);
  std::int64_t available(std::int32_t flow) const;

  const Torus& torus_;
  Chip self_;
  Shared& shared_;
  std::vector<int> wake_;
  int epoll_ = -1;
  std::vector<int> listeners_;
  std::vector<Outgoing> outgoing_;  // to * slots + slot
  std::vector<Incoming> incoming_;
  std::vector<char> buffer_;
  std::uint64_t uses_ = 0;

  // Of the run:
  const Layout* layout_ = nullptr;
  std::vector<UnitState> units_;
  std::vector<std::int64_t> received_;       // per flow
  std::vector<std::int32_t> connection_of_;  // per flow that this chip is sending: outgoing index; else -1
  std::vector<std::vector<std::int32_t>> feeds_;   // per flow: flows of this chip that pass its bytes on
  std::vector<std::int32_t> not_begun_;            // units this member has come to
  std::vector<std::int32_t> in_flight_;            // flows of this chip that are not through
  std::vector<std::vector<std::int32_t>> queued_;  // per receiver: flows without a slot
  std::vector<std::int64_t> copied_at_;
  std::size_t action_ = 0;
  std::int64_t clock_ = 0;  // the chip's own time: when its last action was due to end
  std::int64_t timer_ = 0;  // end of the running compute; 0: none
  ChipResult result_;
};

}  // namespace aoizora::testbed
