#include "simgrid_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <simgrid/s4u.hpp>

#include "aoizora/base/error.h"

namespace aoizora::referees {
namespace {

namespace sg = simgrid::s4u;

}  // namespace

struct SimGridStep::Impl {
  explicit Impl(char* argv0) {
    int argc = 1;
    char* argv[] = {argv0, nullptr};
    engine = std::make_unique<sg::Engine>(&argc, argv);
    sg::Engine::set_config("network/model:CM02");
    sg::Engine::set_config("network/crosstraffic:0");
    sg::Engine::set_config("contexts/stack-size:64");
    root = sg::create_full_zone("root");
  }
  std::unique_ptr<sg::Engine> engine;
  sg::NetZone* root = nullptr;
  std::map<std::string, std::vector<sg::Host*>> hosts;  // per slice
};

namespace {

/// One program on one placement, inside an actor.
class Player {
 public:
  Player(const SimGridStep::Job& job, const std::vector<sg::Host*>& hosts) : job_(job), hosts_(hosts) {
    for (const network::Collective& collective : job.workload->collectives) {
      schedules_.push_back(job.model->schedule(collective, job.placement));
    }
  }

  /// Simulated time of a block, loops multiplied out, µs.
  double block(std::size_t index) {
    double skipped = 0;  // iterations that are counted, not run
    const double start = sg::Engine::get_clock();
    const auto now = [&] { return sg::Engine::get_clock() + skipped; };
    std::map<std::int32_t, sg::SemaphorePtr> open;
    std::map<std::int32_t, double> copies;
    for (const simulate::Op& op : job_.workload->blocks[index].ops) {
      switch (op.kind) {
        case simulate::Op::Kind::kCompute:
          sg::this_actor::sleep_for(op.duration.value);
          break;
        case simulate::Op::Kind::kStart:
          open[op.index] = launch(op.index);
          break;
        case simulate::Op::Kind::kDone:
          if (const auto found = open.find(op.index); found != open.end()) found->second->acquire();
          open.erase(op.index);
          break;
        case simulate::Op::Kind::kSync:
          launch(op.index)->acquire();
          break;
        case simulate::Op::Kind::kLoop: {
          if (op.trips <= 0) break;
          const double before = sg::Engine::get_clock();
          const double once = block(static_cast<std::size_t>(op.index));
          skipped += static_cast<double>(op.trips) * once - (sg::Engine::get_clock() - before);
          break;
        }
        case simulate::Op::Kind::kDmaStart:
          copies[op.index] = now() + op.duration.value;
          break;
        case simulate::Op::Kind::kDmaDone:
          if (const auto found = copies.find(op.index); found != copies.end())
            sg::this_actor::sleep_for(std::max(0.0, found->second - now()));
          break;
      }
    }
    return sg::Engine::get_clock() - start + skipped;
  }

 private:
  sg::SemaphorePtr launch(std::int32_t collective) {
    sg::SemaphorePtr over = sg::Semaphore::create(0);
    const network::Schedule* schedule = &schedules_[static_cast<std::size_t>(collective)];
    sg::Actor::create("collective", hosts_.front(), [this, schedule, over] {
      for (const network::Phase& phase : schedule->phases) run(phase);
      over->release();
    });
    return over;
  }

  void run(const network::Phase& phase) const {
    sg::this_actor::sleep_for(phase.lead.value);
    std::vector<sg::CommPtr> comms;
    for (const network::Flow& flow : phase.flows) {
      comms.push_back(sg::Comm::sendto_async(hosts_[flow.from.at()], hosts_[flow.to.at()],
                                             static_cast<std::uint64_t>(std::llround(flow.bytes))));
    }
    for (const sg::CommPtr& comm : comms) comm->wait();
    if (phase.latency > phase.lead) sg::this_actor::sleep_for((phase.latency - phase.lead).value);
  }

  const SimGridStep::Job& job_;
  const std::vector<sg::Host*>& hosts_;
  std::vector<network::Schedule> schedules_;
};

}  // namespace

SimGridStep::SimGridStep(char* argv0) : impl_(std::make_unique<Impl>(argv0)) {}
SimGridStep::~SimGridStep() = default;

void SimGridStep::add(const network::Model& model) {
  const std::string& name = model.slice().name();
  if (impl_->hosts.contains(name)) return;
  sg::NetZone* zone = sg::create_full_zone(name);
  zone->set_parent(impl_->root);
  std::vector<sg::Host*>& hosts = impl_->hosts[name];
  const auto chips = static_cast<std::int32_t>(model.slice().chips());
  for (std::int32_t i = 0; i < chips; ++i) {
    hosts.push_back(zone->create_host(fmt::format("{}/{}", name, i), 1.0)->seal());
  }
  std::vector<const sg::Link*> links;
  for (std::size_t l = 0; l < model.slice().links().size(); ++l) {
    links.push_back(
        zone->create_link(fmt::format("{}-{}", name, l), model.capacities()[l])->set_latency(0)->seal());
  }
  for (std::int32_t from = 0; from < chips; ++from) {
    for (std::int32_t to = 0; to < chips; ++to) {
      if (from == to) continue;
      std::vector<sg::LinkInRoute> route;
      for (const auto& [link, share] : model.router().route(Chip(from), Chip(to))) {
        AOIZORA_CHECK(share == 1, "SimGrid has no split routes");
        route.emplace_back(links[link.at()]);
      }
      zone->add_route(hosts[static_cast<std::size_t>(from)]->get_netpoint(),
                      hosts[static_cast<std::size_t>(to)]->get_netpoint(), nullptr, nullptr, route, false);
    }
  }
  zone->seal();
}

void SimGridStep::run(std::vector<Job>& jobs) {
  impl_->root->seal();
  sg::Actor::create("jobs", impl_->hosts.begin()->second.front(), [&] {
    for (Job& job : jobs) job.step = Player(job, impl_->hosts.at(job.model->slice().name())).block(0);
  });
  impl_->engine->run();
}

}  // namespace aoizora::referees
