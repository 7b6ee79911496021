#include "torus.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "aoizora/base/error.h"
#include "private_world.h"

namespace aoizora::testbed {
namespace {

using topology::DirectedLink;

constexpr std::int32_t kEthernet = 14;  // header bytes that the queue counts
constexpr std::int32_t kHeaders = 52;   // IPv4 + TCP with timestamps
constexpr std::int32_t kControl = 2;    // class of pure acknowledgements, ARP and the like
constexpr std::int32_t kFirstClass = 0x1000;

std::int32_t class_of(std::int32_t from, std::int32_t to, std::int32_t slot) {
  return kFirstClass + ((from * 16 + to) * 8 + slot);
}

/// Classic BPF for `tc filter .. bpf bytecode`: class by (last byte of source, of destination, low bits of
/// the destination port). A segment without payload is an acknowledgement and goes to the control class,
/// which is served first: 66 bytes for two frames of data. Data never does, however short: it would overtake
/// its own connection. Offsets from the Ethernet header; IPv4 without options, as Linux sends it.
std::string classifier(std::int32_t slots) {
  const std::vector<std::string> code = {
      "40 0 0 12",                                     // 0  A = EtherType
      "21 0 19 2048",                                  // 1  not IPv4: control
      "48 0 0 46",                                     // 2  A = TCP data offset << 4
      "116 0 0 2",                                     // 3  words << 4 -> bytes (and rubbish below)
      "84 0 0 60",                                     // 4
      "4 0 0 20",                                      // 5  + IP header
      "7 0 0 0",                                       // 6  X = bytes of headers
      "40 0 0 16",                                     // 7  A = IP length
      "29 12 0 0",                                     // 8  nothing but headers: control
      "48 0 0 29",                                     // 9  source
      "84 0 0 15",                                     // 10
      "100 0 0 4",                                     // 11
      "7 0 0 0",                                       // 12
      "48 0 0 33",                                     // 13 destination
      "84 0 0 15",                                     // 14
      "12 0 0 0",                                      // 15
      "100 0 0 3",                                     // 16
      "7 0 0 0",                                       // 17
      "40 0 0 36",                                     // 18 port
      fmt::format("84 0 0 {}", slots - 1),             // 19
      "5 0 0 1",                                       // 20 over the control return
      fmt::format("6 0 0 {}", 0x10000 + kControl),     // 21
      "12 0 0 0",                                      // 22
      fmt::format("4 0 0 {}", 0x10000 + kFirstClass),  // 23
      "22 0 0 0",                                      // 24
  };
  return fmt::format("{},{}", code.size(), fmt::join(code, ","));
}

std::string mac(Link link) {
  return fmt::format("02:00:00:00:{:02x}:{:02x}", link.value >> 8, link.value & 255);
}

/// Names of the two ends of the cable between host h and chip c.
std::string host_end(std::int32_t chip) { return fmt::format("c{}", chip); }
std::string chip_end(std::int32_t host) { return fmt::format("h{}", host); }

/// End 1 of a cable is the host's, 2 the chip's.
std::string cable_mac(int end, std::int32_t host, std::int32_t chip) {
  return fmt::format("02:00:00:{:02x}:{:02x}:{:02x}", end, host, chip);
}
/// What a host calls the chip it is plugged into.
constexpr std::string_view kGateway = "10.77.0.254";

void write_setting(const std::string& name, const std::string& value) {
  const std::string path = "/proc/sys/net/" + name;
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool good = fd >= 0 && write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  if (fd >= 0) close(fd);
  AOIZORA_CHECK(good, "{} = {}", path, value);
}

/// Settings of a network namespace are written from inside.
void settings_of(const std::string& network, bool hosts) {
  std::fflush(nullptr);
  const pid_t child = fork();
  AOIZORA_CHECK(child >= 0, "fork");
  if (child == 0) {
    try {
      enter_network(network);
      write_setting("ipv4/ip_forward", "1");
      write_setting("ipv4/conf/all/rp_filter", "0");
      write_setting("ipv4/conf/default/rp_filter", "0");
      write_setting("ipv6/conf/all/disable_ipv6", "1");
      write_setting("ipv6/conf/default/disable_ipv6", "1");
      write_setting("ipv4/tcp_congestion_control", "reno");
      write_setting("ipv4/tcp_slow_start_after_idle", "0");
      write_setting("ipv4/tcp_no_metrics_save", "1");
      // Between hosts TCP stays as it is: programs that read late and cables that are re-plugged need its
      // timers. In a replay nothing is ever lost, so whatever looks like a loss is a queue that has grown: no
      // probes, no early retransmissions. (The route's rto_min does the same for the timer.)
      if (!hosts) {
        write_setting("ipv4/tcp_early_retrans", "0");
        write_setting("ipv4/tcp_recovery", "0");
        write_setting("ipv4/tcp_reordering", "100");  // two processors may swap packets
      }
      // Room enough that the route's window, not memory, is the limit.
      write_setting("ipv4/tcp_rmem", "4096 2097152 4194304");
      _exit(0);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      _exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  AOIZORA_CHECK(status == 0, "settings of network {}", network);
}

}  // namespace

std::string chip_network(Chip chip) { return fmt::format("chip{}", chip.value); }
std::string host_network(std::int32_t host) { return fmt::format("host{}", host); }
std::string address(std::int32_t node) { return fmt::format("10.77.0.{}", node); }

Torus::Torus(const topology::Slice& slice, LinkSettings settings)
    : slice_(&slice), router_(slice), settings_(settings) {
  if (slice.chips() > kMostChips) {
    user_error("the testbed holds up to {} chips, {} has {}", kMostChips, slice.name(), slice.chips());
  }
  if (slice.cores() > 1 || slice.slices() > 1) {
    user_error("the testbed has no links inside a chip or between slices, which {} needs", slice.name());
  }
  const auto links = slice.links();
  std::vector<bool> paired(links.size(), false);
  interfaces_.resize(links.size());
  for (std::size_t a = 0; a < links.size(); ++a) {
    interfaces_[a].link = Link(static_cast<std::int32_t>(a));
    for (std::size_t b = a + 1; b < links.size() && !paired[a]; ++b) {
      if (paired[b] || links[b].from != links[a].to || links[b].to != links[a].from ||
          links[b].direction != -links[a].direction) {
        continue;
      }
      paired[a] = paired[b] = true;
      interfaces_[a].reverse = Link(static_cast<std::int32_t>(b));
      interfaces_[b].reverse = Link(static_cast<std::int32_t>(a));
    }
    if (!paired[a]) user_error("{}: a link that goes one way only can't be a cable", slice.name());
  }
}

double Torus::rate_mbit(Link link) const {
  const double own = slice_->links()[link.at()].bandwidth.value;  // of a graph file, payload bytes/µs
  const double frame = settings_.mtu + kEthernet;
  return own > 0 ? own * 8 * frame / (settings_.mtu - kHeaders) : settings_.rate_mbit;
}

std::vector<std::pair<std::int32_t, std::int32_t>> Torus::pairs_over(Link link) const {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  const auto chips = static_cast<std::int32_t>(slice_->chips());
  for (std::int32_t from = 0; from < chips; ++from) {
    for (std::int32_t to = 0; to < chips; ++to) {
      if (from == to) continue;
      const auto route = router_.route(Chip(from), Chip(to));
      const bool over =
          std::any_of(route.begin(), route.end(), [&](const auto& r) { return r.first == link; });
      if (over || settings_.hosts) pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

std::string Torus::link_lines() const {
  std::string lines;
  for (std::size_t c = 0; c < slice_->chips(); ++c) {
    lines += fmt::format("netns add {}\n", chip_network(Chip(static_cast<std::int32_t>(c))));
    if (settings_.hosts) lines += fmt::format("netns add {}\n", host_network(static_cast<std::int32_t>(c)));
  }
  for (const Interface& one : interfaces_) {
    if (one.link > one.reverse) continue;
    const DirectedLink& link = slice_->links()[one.link.at()];
    const Interface& other = interfaces_[one.reverse.at()];
    lines += fmt::format(
        "link add {} netns {} address {} mtu {} type veth peer name {} netns {} address {} mtu {}\n",
        one.name(), chip_network(link.from), mac(one.link), settings_.mtu, other.name(),
        chip_network(link.to), mac(other.link), settings_.mtu);
  }
  if (settings_.hosts) {
    const auto chips = static_cast<std::int32_t>(slice_->chips());
    for (std::int32_t host = 0; host < chips; ++host) {
      for (std::int32_t chip = 0; chip < chips; ++chip) {
        lines += fmt::format(
            "link add {} netns {} address {} mtu {} type veth peer name {} netns {} address {} mtu {}\n",
            host_end(chip), host_network(host), cable_mac(1, host, chip), settings_.mtu, chip_end(host),
            chip_network(Chip(chip)), cable_mac(2, host, chip), settings_.mtu);
      }
    }
  }
  return lines;
}

std::string Torus::chip_lines(Chip chip) const {
  const std::int32_t frame = settings_.mtu + kEthernet;
  std::string lines = "link set lo up\n";
  if (!settings_.hosts) lines += fmt::format("addr add {}/32 dev lo\n", address(chip.value));
  for (const Interface& one : interfaces_) {
    const DirectedLink& link = slice_->links()[one.link.at()];
    if (link.from != chip) continue;
    // One frame an skb, so that queues and round robin see frames.
    lines +=
        fmt::format("link set {} gso_max_segs 1 gso_max_size {} txqueuelen 1000 up\n", one.name(), frame);
    lines += fmt::format("neigh add {} lladdr {} dev {} nud permanent\n", address(200 + link.to.value),
                         mac(one.reverse), one.name());
  }
  if (settings_.hosts) {
    for (std::size_t host = 0; host < slice_->chips(); ++host) {
      const auto number = static_cast<std::int32_t>(host);
      lines += fmt::format("link set {} gso_max_segs 1 gso_max_size {} up\n", chip_end(number), frame);
      lines += fmt::format("neigh add {} lladdr {} dev {} nud permanent\n", address(number),
                           cable_mac(1, number, chip.value), chip_end(number));
    }
    return lines;  // routes follow the plugs
  }
  const std::int32_t frames = settings_.window / settings_.mtu;
  for (std::size_t to = 0; to < slice_->chips(); ++to) {
    const Chip target(static_cast<std::int32_t>(to));
    if (target == chip) continue;
    const Link first = router_.route(chip, target).front().first;
    const Chip next = slice_->links()[first.at()].to;
    // The rest of the route must be the neighbour's own route, or forwarding by destination can't follow N2.
    const auto whole = router_.route(chip, target);
    const auto rest = router_.route(next, target);
    AOIZORA_CHECK(std::equal(whole.begin() + 1, whole.end(), rest.begin(), rest.end()), "route {} to {}",
                  chip.value, target.value);
    lines +=
        fmt::format("route add {} via {} dev {} onlink src {} window {} initcwnd {} initrwnd {} rto_min 3s\n",
                    address(target.value), address(200 + next.value), interfaces_[first.at()].name(),
                    address(chip.value), settings_.window, frames + 1, frames + 1);
  }
  return lines;
}

std::string Torus::queue_lines(Chip chip) const {
  const std::int32_t frame = settings_.mtu + kEthernet;
  std::string lines;
  for (const Interface& one : interfaces_) {
    if (slice_->links()[one.link.at()].from != chip) continue;
    const std::string name = one.name();
    const std::string rate = fmt::format("{}kbit", static_cast<std::int64_t>(rate_mbit(one.link) * 1000));
    const std::string common = fmt::format("ceil {} burst {} cburst {} quantum {}", rate,
                                           settings_.burst * frame, settings_.burst * frame, frame);
    lines += fmt::format("qdisc add dev {} root handle 1: htb default {}\n", name, kControl);
    lines += fmt::format("class add dev {} parent 1: classid 1:1 htb rate {} {}\n", name, rate, common);
    // A leaf's own rate is next to nothing: it lives on what it borrows, in turn with the others.
    lines += fmt::format("class add dev {} parent 1:1 classid 1:{:x} htb prio 0 rate 1kbit {}\n", name,
                         kControl, common);
    for (const auto& [from, to] : pairs_over(one.link)) {
      for (std::int32_t slot = 0; slot < settings_.slots; ++slot) {
        lines += fmt::format("class add dev {} parent 1:1 classid 1:{:x} htb prio 1 rate 1kbit {}\n", name,
                             class_of(from, to, slot), common);
      }
    }
    lines += fmt::format("filter add dev {} parent 1: protocol all prio 1 bpf bytecode \"{}\"\n", name,
                         classifier(settings_.slots));
  }
  return lines;
}

std::string Torus::host_lines(std::int32_t host) const {
  std::string lines = fmt::format("link set lo up\naddr add {}/32 dev lo\n", address(host));
  for (std::size_t chip = 0; chip < slice_->chips(); ++chip) {
    const auto number = static_cast<std::int32_t>(chip);
    lines += fmt::format("link set {} gso_max_segs 1 gso_max_size {} txqueuelen 1000 up\n", host_end(number),
                         settings_.mtu + kEthernet);
    lines += fmt::format("neigh add {} lladdr {} dev {} nud permanent\n", kGateway,
                         cable_mac(2, host, number), host_end(number));
  }
  return lines;
}

void Torus::set_up() const {
  feed({"ip", "-batch", "-"}, link_lines());
  for (std::size_t c = 0; c < slice_->chips(); ++c) {
    const Chip chip(static_cast<std::int32_t>(c));
    settings_of(chip_network(chip), settings_.hosts);
    feed({"ip", "-n", chip_network(chip), "-batch", "-"}, chip_lines(chip));
    feed({"tc", "-n", chip_network(chip), "-batch", "-"}, queue_lines(chip));
    if (settings_.hosts) {
      const std::string host = host_network(chip.value);
      settings_of(host, true);
      feed({"ip", "-n", host, "-batch", "-"}, host_lines(chip.value));
    }
  }
  if (settings_.hosts) plug_all(topology::row_major(*slice_));
}

void Torus::plug_all(const topology::Placement& plugs) const {
  AOIZORA_CHECK(settings_.hosts, "no hosts to plug");
  topology::check_placement(*slice_, plugs);
  const std::int32_t frames = settings_.window / settings_.mtu;
  for (std::size_t c = 0; c < slice_->chips(); ++c) {
    const Chip chip(static_cast<std::int32_t>(c));
    std::string lines;
    for (std::size_t h = 0; h < plugs.size(); ++h) {
      const auto host = static_cast<std::int32_t>(h);
      if (plugs[h] == chip) {
        lines += fmt::format("route replace {} dev {}\n", address(host), chip_end(host));
        continue;
      }
      const Link first = router_.route(chip, plugs[h]).front().first;
      lines +=
          fmt::format("route replace {} via {} dev {} onlink\n", address(host),
                      address(200 + slice_->links()[first.at()].to.value), interfaces_[first.at()].name());
    }
    feed({"ip", "-n", chip_network(chip), "-batch", "-"}, lines);
  }
  for (std::size_t h = 0; h < plugs.size(); ++h) {
    const auto host = static_cast<std::int32_t>(h);
    std::string lines;
    for (std::size_t other = 0; other < plugs.size(); ++other) {
      if (other == h) continue;
      lines += fmt::format("route replace {} via {} dev {} onlink src {} window {} initcwnd {} initrwnd {}\n",
                           address(static_cast<std::int32_t>(other)), kGateway, host_end(plugs[h].value),
                           address(host), settings_.window, frames + 1, frames + 1);
    }
    feed({"ip", "-n", host_network(host), "-batch", "-"}, lines);
  }
}

}  // namespace aoizora::testbed
