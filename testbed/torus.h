#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aoizora/topology/route.h"

/// A slice made of real links: one network namespace a chip, one veth pair a link.
///
/// Each direction of a link has an htb queue with the link's rate and one class for every (sender, receiver,
/// slot) whose route crosses it. htb serves the classes that borrow from one parent by deficit round robin,
/// so flows share a link packet by packet, and nobody computes rates. The senders are TCP with a fixed window
/// (the route's `window`; no packet is ever dropped, so congestion control has nothing to do). Round robin at
/// each link and window flow control give max-min fair rates (Hahne, IEEE JSAC 9(7), 1991): the theorem
/// behind N4 is checked here on real packets (`fairness`), not put in.
namespace aoizora::testbed {

struct LinkSettings {
  double rate_mbit = 40;        // of each direction, Ethernet frames
  std::int32_t mtu = 4000;      // bytes
  std::int32_t window = 49152;  // bytes in flight of one connection
  std::int32_t burst = 1;       // frames that may catch up after the timer was late
  std::int32_t slots = 8;       // flows between one pair that may run at once; a power of two up to 8
  /// Hosts beside the chips, which can be plugged into any of them (`Torus::plug_all`): processes stay, and
  /// their placement changes. Flows are then told apart by host, and slots must be 1.
  bool hosts = false;
};

inline constexpr std::size_t kMostChips = 16;
/// A connection's slot is the low bits of the receiver's port.
inline constexpr std::uint16_t kFirstPort = 7000;

/// Network namespace of a chip: what `ip netns exec` takes.
std::string chip_network(Chip chip);
std::string host_network(std::int32_t host);
/// IPv4 address of a chip, or of a host where there are hosts.
std::string address(std::int32_t node);

/// One interface: one direction of a link.
struct Interface {
  Link link;
  Link reverse;
  std::string name() const { return "l" + std::to_string(link.value); }
};

class Torus {
 public:
  /// UserError when the slice has more than 16 chips, links that go one way only, or more than chips and
  /// links between them (two devices a chip, several slices). Makes nothing yet.
  Torus(const topology::Slice& slice, LinkSettings settings);

  /// Makes everything, inside a private world.
  void set_up() const;
  /// Host h at chip plugs[h], for all hosts. Connections between hosts live on.
  void plug_all(const topology::Placement& plugs) const;

  const topology::Slice& slice() const { return *slice_; }
  const topology::Router& router() const { return router_; }
  const LinkSettings& settings() const { return settings_; }
  /// Bytes of a frame (with Ethernet header) a link passes in one microsecond.
  double bytes_per_micro() const { return settings_.rate_mbit / 8; }
  double rate_mbit(Link link) const;

 private:
  std::string link_lines() const;
  std::string chip_lines(Chip chip) const;
  std::string queue_lines(Chip chip) const;
  std::string host_lines(std::int32_t host) const;
  /// Sender, receiver pairs (of chips, or of hosts) that can cross a link.
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs_over(Link link) const;

  const topology::Slice* slice_;
  topology::Router router_;
  LinkSettings settings_;
  std::vector<Interface> interfaces_;  // by link
};

}  // namespace aoizora::testbed
