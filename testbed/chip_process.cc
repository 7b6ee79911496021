#include "chip_process.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "aoizora/base/error.h"
#include "private_world.h"

namespace aoizora::testbed {
namespace {

constexpr std::size_t kHeader = 16;
constexpr std::int64_t kChunk = 1 << 16;      // bytes of one send
constexpr std::uint32_t kMagic = 0x416f695a;  // `AoiZ`
// What an epoll event names.
constexpr std::uint64_t kIncoming = 1ULL << 32;
constexpr std::uint64_t kOutgoing = 2ULL << 32;
constexpr std::uint64_t kWake = 3ULL << 32;

struct Header {
  std::uint32_t magic;
  std::int32_t flow;
  std::int64_t bytes;
};
static_assert(sizeof(Header) == kHeader);

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

sockaddr_in endpoint(std::int32_t node, std::uint16_t port) {
  sockaddr_in address_of{};
  address_of.sin_family = AF_INET;
  address_of.sin_port = htons(port);
  inet_pton(AF_INET, address(node).c_str(), &address_of.sin_addr);
  return address_of;
}

void check(bool good, const char* what) {
  if (!good) throw InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

int tcp_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(fd >= 0, "socket");
  const int on = 1;
  check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
  return fd;
}

void watch(int epoll, int fd, std::uint32_t events, std::uint64_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

std::int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

ChipProcess::ChipProcess(const Torus& torus, Chip self, Shared& shared, std::span<const int> wake)
    : torus_(torus), self_(self), shared_(shared), wake_(wake.begin(), wake.end()), buffer_(1 << 18) {
  // Before all else that runs here, where we may: a chip that gets its processor 10 ms late is no slow link.
  sched_param priority{};
  priority.sched_priority = 1;
  sched_setscheduler(0, SCHED_RR, &priority);
  prctl(PR_SET_TIMERSLACK, 1);  // ns: the default of 50 µs would add to every wait
  enter_network(chip_network(self));
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  check(epoll_ >= 0, "epoll");
  watch(epoll_, wake_[self.at()], EPOLLIN, kWake);
  const std::size_t slots = at(torus.settings().slots);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const int fd = listeners_.emplace_back(tcp_socket());
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in here = endpoint(self.value, static_cast<std::uint16_t>(kFirstPort + slot));
    check(bind(fd, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0, "bind");
    check(listen(fd, kMostChips) == 0, "listen");
  }
  outgoing_.resize(torus.slice().chips() * slots);
}

ChipProcess::~ChipProcess() {
  for (const int fd : listeners_) close(fd);
  for (const Outgoing& one : outgoing_) {
    if (one.fd >= 0) close(one.fd);
  }
  for (const Incoming& one : incoming_) close(one.fd);
  close(epoll_);
}

ChipProcess::Outgoing& ChipProcess::outgoing(std::int32_t to, std::int32_t slot) {
  return outgoing_[at(to * torus_.settings().slots + slot)];
}

void ChipProcess::connect_all() {
  const auto chips = static_cast<std::int32_t>(torus_.slice().chips());
  for (std::int32_t to = 0; to < chips; ++to) {
    for (std::int32_t slot = 0; slot < torus_.settings().slots && to != self_.value; ++slot) {
      Outgoing& one = outgoing(to, slot);
      one.fd = tcp_socket();
      const int room = 2 * torus_.settings().window;
      setsockopt(one.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
      const sockaddr_in there = endpoint(to, static_cast<std::uint16_t>(kFirstPort + slot));
      check(connect(one.fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0, "connect");
      watch(epoll_, one.fd, EPOLLOUT | EPOLLET, kOutgoing | at(to * torus_.settings().slots + slot));
    }
  }
}

void ChipProcess::accept_all() {
  for (const int listener : listeners_) {
    for (std::size_t i = 0; i + 1 < torus_.slice().chips(); ++i) {
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC);
      check(fd >= 0, "accept");
      const auto from = static_cast<std::int32_t>(ntohl(peer.sin_addr.s_addr) & 255);
      incoming_.push_back({fd, from, 0, {}, -1, 0});
      watch(epoll_, fd, EPOLLIN, kIncoming | (incoming_.size() - 1));
    }
  }
}

void ChipProcess::count_links(std::vector<std::pair<Link, std::int64_t>>& counts) const {
  std::FILE* file = std::fopen("/proc/thread-self/net/dev", "r");
  check(file != nullptr, "/proc/net/dev");
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    int link = 0;
    unsigned long long sent = 0;
    // name: received bytes, packets, errs, drop, fifo, frame, compressed, multicast; sent bytes
    if (std::sscanf(line, " l%d: %*u %*u %*u %*u %*u %*u %*u %*u %llu", &link, &sent) == 2) {
      counts.emplace_back(Link(link), static_cast<std::int64_t>(sent));
    }
  }
  std::fclose(file);
}

std::int64_t ChipProcess::count_resent() const {
  std::FILE* file = std::fopen("/proc/thread-self/net/snmp", "r");
  check(file != nullptr, "/proc/net/snmp");
  char line[1024];
  long long resent = -1;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    // Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab
    // InSegs
    //      OutSegs RetransSegs; the first such line has the names
    std::sscanf(line, "Tcp: %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %lld", &resent);
  }
  std::fclose(file);
  return resent;
}

void ChipProcess::prepare(const Layout& layout) {
  layout_ = &layout;
  result_ = {};
  units_.assign(layout.units.size(), {});
  received_.assign(layout.flows.size(), 0);
  connection_of_.assign(layout.flows.size(), -1);
  feeds_.assign(layout.flows.size(), {});
  not_begun_.clear();
  in_flight_.clear();
  queued_.assign(torus_.slice().chips(), {});
  copied_at_.assign(layout.copies, 0);
  action_ = 0;
  timer_ = 0;
  for (std::size_t u = 0; u < layout.units.size(); ++u) {
    const auto& members = layout.units[u].members;
    units_[u].mine = std::find(members.begin(), members.end(), self_.value) != members.end();
    units_[u].incoming.assign(layout.units[u].phase_flows.size(), 0);
  }
  for (std::size_t f = 0; f < layout.flows.size(); ++f) {
    const FlowPlan& flow = layout.flows[f];
    UnitState& unit = units_[at(flow.unit)];
    if (flow.to == self_.value) ++unit.incoming[at(flow.phase)];
    if (flow.to == self_.value || flow.from == self_.value) ++unit.left;
    if (flow.from == self_.value && flow.after >= 0) {
      feeds_[at(flow.after)].push_back(static_cast<std::int32_t>(f));
    }
  }
}

void ChipProcess::run(const Layout& layout) {
  prepare(layout);
  std::vector<std::pair<Link, std::int64_t>> before;
  count_links(before);
  shared_.ready.fetch_add(1);
  poke(static_cast<std::int32_t>(wake_.size()) - 1);
  while (shared_.start.load() == 0) serve(0);
  clock_ = shared_.start.load();
  const std::int64_t resent = count_resent();
  const timespec begin{clock_ / 1'000'000'000, clock_ % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &begin, nullptr);
  const std::int64_t cpu = cpu_ns();
  while (advance()) serve(timer_);
  result_.end = now_ns();
  result_.cpu = cpu_ns() - cpu;
  shared_.chips[self_.at()] = result_;
  shared_.finished.fetch_add(1);
  poke(static_cast<std::int32_t>(wake_.size()) - 1);
  // Others may still send what this chip must take (nothing of its own: it is through with all its units).
  const auto chips = static_cast<std::int32_t>(torus_.slice().chips());
  while (shared_.finished.load() < chips) serve(0);
  std::vector<std::pair<Link, std::int64_t>> after;
  count_links(after);
  for (std::size_t i = 0; i < after.size(); ++i) {
    shared_.link_bytes[after[i].first.at()] = after[i].second - before[i].second;
  }
  shared_.chips[self_.at()].resent = count_resent() - resent;
  shared_.counted.fetch_add(1);
  poke(static_cast<std::int32_t>(wake_.size()) - 1);
}

/// Serves the network once; waits for something to happen, or until a time (0: none).
void ChipProcess::serve(std::int64_t until) {
  std::array<epoll_event, 32> events{};
  timespec wait{};
  timespec* limit = nullptr;
  if (until != 0) {
    const std::int64_t left = std::max<std::int64_t>(0, until - now_ns());
    wait = {left / 1'000'000'000, left % 1'000'000'000};
    limit = &wait;
  }
  const int count = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), limit, nullptr);
  if (count < 0 && errno == EINTR) return;
  check(count >= 0, "epoll_pwait2");
  for (int i = 0; i < count; ++i) {
    const std::uint64_t name = events[static_cast<std::size_t>(i)].data.u64;
    const auto index = static_cast<std::size_t>(name & 0xffffffff);
    if ((name & ~0xffffffffULL) == kIncoming) {
      pull(incoming_[index]);
    } else if ((name & ~0xffffffffULL) == kOutgoing) {
      outgoing_[index].writable = true;
      push(outgoing_[index], static_cast<std::int32_t>(index) / torus_.settings().slots);
    } else {
      poked();
    }
  }
}

void ChipProcess::poke(std::int32_t chip) const {
  const std::uint64_t one = 1;
  check(write(wake_[at(chip)], &one, sizeof one) == sizeof one, "eventfd");
}

void ChipProcess::poked() {
  std::uint64_t count = 0;
  if (read(wake_[self_.at()], &count, sizeof count) < 0) return;
  if (layout_ == nullptr) return;
  const std::vector<std::int32_t> waiting = not_begun_;
  for (const std::int32_t unit : waiting) begin_if_complete(unit);
  std::erase_if(in_flight_, [&](std::int32_t flow) {
    if (shared_.delivered[at(flow)].load() == 0) return false;
    --units_[at(layout_->flows[at(flow)].unit)].left;
    return true;
  });
}

bool ChipProcess::execution_done(std::int32_t execution) const {
  return std::all_of(layout_->units_of[at(execution)].begin(), layout_->units_of[at(execution)].end(),
                     [&](std::int32_t u) {
                       const UnitState& unit = units_[at(u)];
                       return !unit.mine || (unit.begun && unit.left == 0);
                     });
}

/// Goes through the actions as far as they go; false when all are done. Compute starts where the one before
/// was due to end, unless something was waited for: a late timer must not add up.
bool ChipProcess::advance() {
  for (; action_ < layout_->actions.size(); ++action_) {
    const Action& action = layout_->actions[action_];
    const std::int64_t now = now_ns();
    switch (action.kind) {
      case Action::Kind::kCompute:
        if (timer_ == 0) timer_ = clock_ + action.nanos;
        if (now < timer_) return true;
        result_.late += now - timer_;
        clock_ = timer_;
        timer_ = 0;
        break;
      case Action::Kind::kStart:
        arrive(action.index);
        break;
      case Action::Kind::kDone:
        if (!execution_done(action.index)) {
          clock_ = 0;
          return true;
        }
        if (clock_ == 0) clock_ = now;
        break;
      case Action::Kind::kCopy:
        copied_at_[at(action.index)] = clock_ + action.nanos;
        break;
      case Action::Kind::kCopied:
        if (now < copied_at_[at(action.index)]) {
          timer_ = copied_at_[at(action.index)];
          return true;
        }
        timer_ = 0;
        clock_ = std::max(clock_, copied_at_[at(action.index)]);
        break;
    }
  }
  return false;
}

void ChipProcess::arrive(std::int32_t execution) {
  for (const std::int32_t u : layout_->units_of[at(execution)]) {
    if (!units_[at(u)].mine) continue;
    const auto& members = layout_->units[at(u)].members;
    const auto count = static_cast<std::int32_t>(members.size());
    not_begun_.push_back(u);
    if (shared_.arrived[at(u)].fetch_add(1) + 1 == count) {
      for (const std::int32_t member : members) {
        if (member != self_.value) poke(member);
      }
    }
    begin_if_complete(u);
  }
}

void ChipProcess::begin_if_complete(std::int32_t u) {
  UnitState& unit = units_[at(u)];
  const auto count = static_cast<std::int32_t>(layout_->units[at(u)].members.size());
  if (unit.begun || shared_.arrived[at(u)].load() < count) return;
  unit.begun = true;
  std::erase(not_begun_, u);
  send_phase(u);
}

/// Sends the flows of the next phase, and of those after it as long as nothing has to come in first.
void ChipProcess::send_phase(std::int32_t u) {
  UnitState& unit = units_[at(u)];
  const UnitPlan& plan = layout_->units[at(u)];
  while (unit.phase + 1 < static_cast<std::int32_t>(plan.phase_flows.size()) &&
         (unit.phase < 0 || unit.incoming[at(unit.phase)] == 0)) {
    ++unit.phase;
    std::int32_t first = plan.first_flow;
    for (std::int32_t p = 0; p < unit.phase; ++p) first += plan.phase_flows[at(p)];
    for (std::int32_t f = first; f < first + plan.phase_flows[at(unit.phase)]; ++f) {
      if (layout_->flows[at(f)].from != self_.value) continue;
      in_flight_.push_back(f);
      send_flow(f);
    }
  }
}

void ChipProcess::send_flow(std::int32_t flow) {
  const std::int32_t to = layout_->flows[at(flow)].to;
  Outgoing* best = nullptr;
  for (std::int32_t slot = 0; slot < torus_.settings().slots; ++slot) {
    Outgoing& one = outgoing(to, slot);
    if (one.flow < 0 && (best == nullptr || one.used < best->used)) best = &one;
  }
  if (best == nullptr) {
    ++result_.queued;
    queued_[at(to)].push_back(flow);
    return;
  }
  best->flow = flow;
  best->sent = 0;
  best->header_left = kHeader;
  connection_of_[at(flow)] = static_cast<std::int32_t>(best - outgoing_.data());
  push(*best, to);
}

std::int64_t ChipProcess::available(std::int32_t f) const {
  const FlowPlan& flow = layout_->flows[at(f)];
  if (flow.after < 0) return flow.bytes;
  const FlowPlan& before = layout_->flows[at(flow.after)];
  const std::int64_t came = received_[at(flow.after)];
  if (came >= before.bytes) return flow.bytes;
  // Flows of one ring may differ by a byte of rounding.
  const std::int64_t passed = (came * flow.bytes + before.bytes - 1) / before.bytes;
  return std::min(flow.bytes, flow.first + passed);
}

void ChipProcess::push(Outgoing& connection, std::int32_t to) {
  while (connection.flow >= 0 && connection.writable) {
    const FlowPlan& flow = layout_->flows[at(connection.flow)];
    const std::int64_t ready = available(connection.flow);
    // Whole segments or half rounds: a ring that passes on what it has at once would send crumbs.
    const std::int64_t least = std::min<std::int64_t>((flow.first + 1) / 2, torus_.settings().mtu);
    if (ready < flow.bytes && ready - connection.sent < least) return;
    const std::int64_t chunk = std::min(kChunk, ready - connection.sent);
    const Header header{kMagic, connection.flow, flow.bytes};
    std::array<char, kHeader> bytes{};
    std::memcpy(bytes.data(), &header, kHeader);
    std::array<iovec, 2> parts{{{bytes.data() + (kHeader - connection.header_left), connection.header_left},
                                {buffer_.data(), static_cast<std::size_t>(chunk)}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const int more = connection.sent + chunk < ready ? MSG_MORE : 0;
    const ssize_t sent = sendmsg(connection.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | more);
    if (sent < 0 && errno == EAGAIN) {
      connection.writable = false;
      return;
    }
    check(sent >= 0, "send");
    const auto of_header = std::min(connection.header_left, static_cast<std::size_t>(sent));
    connection.header_left -= of_header;
    connection.sent += sent - static_cast<ssize_t>(of_header);
    if (connection.sent == flow.bytes && connection.header_left == 0) {
      connection_of_[at(connection.flow)] = -1;
      connection.flow = -1;
      connection.used = ++uses_;
      if (!queued_[at(to)].empty()) {
        const std::int32_t next = queued_[at(to)].front();
        queued_[at(to)].erase(queued_[at(to)].begin());
        send_flow(next);
      }
    }
  }
}

void ChipProcess::pull(Incoming& connection) {
  for (;;) {
    if (connection.flow < 0) {
      const ssize_t got = recv(connection.fd, connection.header.data() + connection.header_have,
                               kHeader - connection.header_have, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) return;
      check(got > 0, "a chip has gone");
      connection.header_have += static_cast<std::size_t>(got);
      if (connection.header_have < kHeader) continue;
      Header header{};
      std::memcpy(&header, connection.header.data(), kHeader);
      AOIZORA_CHECK(header.magic == kMagic && at(header.flow) < layout_->flows.size() &&
                        layout_->flows[at(header.flow)].bytes == header.bytes &&
                        layout_->flows[at(header.flow)].from == connection.from,
                    "what came from chip {} is no transfer of this run", connection.from);
      connection = {connection.fd, connection.from, 0, {}, header.flow, header.bytes};
    }
    // MSG_TRUNC: TCP drops the bytes instead of copying them.
    const auto room =
        static_cast<std::size_t>(std::min(connection.left, static_cast<std::int64_t>(buffer_.size())));
    const ssize_t got = recv(connection.fd, buffer_.data(), room, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno == EAGAIN) return;
    check(got > 0, "a chip has gone");
    connection.left -= got;
    const std::int32_t flow = connection.flow;
    received_[at(flow)] += got;
    if (connection.left == 0) {
      connection.flow = -1;
      received(flow);
    }
    for (const std::int32_t next : feeds_[at(flow)]) {
      if (const std::int32_t c = connection_of_[at(next)]; c >= 0) {
        push(outgoing_[at(c)], layout_->flows[at(next)].to);
      }
    }
  }
}

void ChipProcess::received(std::int32_t f) {
  const FlowPlan& flow = layout_->flows[at(f)];
  shared_.delivered[at(f)].store(now_ns());
  poke(flow.from);
  UnitState& unit = units_[at(flow.unit)];
  --unit.left;
  --unit.incoming[at(flow.phase)];
  // A phase of this member may be over; it has begun, or the sender could not have.
  if (unit.begun) send_phase(flow.unit);
}

}  // namespace aoizora::testbed
