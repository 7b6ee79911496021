#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "aoizora/base/random.h"
#include "aoizora/network/bound_evaluator.h"
#include "aoizora/network/model.h"
#include "aoizora/topology/symmetry.h"

// The properties of shared/design.md that the network model alone must have.
namespace aoizora::network {
namespace {

using topology::Placement;
using topology::Slice;

const char* const kSlices[] = {"v5e:2x4",   "v5e:4x4",   "v5e:4x8",  "v6e:1x16",
                               "v5p:2x2x4", "v5p:4x4x4", "v7x:2x2x2"};

struct Case {
  Slice slice;
  Collective collective;
  Placement placement;
  std::string text;
};

Placement random_placement(Random& random, const Slice& slice) {
  Placement placement = topology::row_major(slice);
  random.shuffle(placement);
  return placement;
}

/// Any kind, groups of any one size that divides the chips or of several; a third of the placements are the
/// ordinary one, whose groups are regular.
Case random_case(Random& random, const char* slice = nullptr) {
  if (slice == nullptr) {
    slice = kSlices[random.below(std::size(kSlices))];
  }
  Case made{Slice::parse(slice), {}, {}, ""};
  const std::size_t chips = made.slice.chips();
  made.collective.kind = static_cast<Kind>(random.below(6));
  made.collective.bytes = Bytes(1 + static_cast<std::int64_t>(random.below(1U << 26)));
  std::vector<Partition> ids;
  for (std::size_t i = 0; i < chips; ++i) {
    ids.push_back(Partition(static_cast<std::int32_t>(i)));
  }
  if (random.below(2) == 0) {
    random.shuffle(ids);
  }
  if (made.collective.kind == Kind::kPermute) {
    for (std::size_t i = 0; i < chips; ++i) {
      made.collective.pairs.emplace_back(ids[i], ids[(i + 1) % chips]);
    }
  } else {
    const std::size_t size = std::size_t{1} << (1 + random.below(4));
    for (std::size_t i = 0; i < chips; i += size) {
      made.collective.groups.emplace_back(
          ids.begin() + static_cast<std::ptrdiff_t>(i),
          ids.begin() + static_cast<std::ptrdiff_t>(std::min(i + size, chips)));
    }
  }
  const char* const strategies[] = {"", "StrategyRing", "UniDirection1DRingStrategy",
                                    "UniDirectionNDRingStrategy"};
  made.collective.hint.strategy = strategies[random.below(4)];
  made.collective.hint.colors = static_cast<std::int32_t>(random.below(5));
  if (random.below(2) == 0) {
    made.collective.hint.has_reordering_map = random.below(2) == 0;
  }
  made.placement =
      random.below(3) == 0 ? topology::row_major(made.slice) : random_placement(random, made.slice);
  made.text = fmt::format("{} {} of {} bytes", made.slice.name(), kind_name(made.collective.kind),
                          made.collective.bytes.value);
  return made;
}

Assumptions random_assumptions(Random& random) {
  return {static_cast<Assumptions::Ring>(random.below(3)),
          static_cast<Assumptions::Routing>(random.below(3))};
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

RC_GTEST_PROP(NetworkModel, BoundNeverExceedsCost, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Case one = random_case(random);
  const Model model(one.slice, Profile::builtin(one.slice.kind()), random_assumptions(random));
  const Cost cost = model.cost(one.collective, one.placement);
  RC_LOG(one.text);
  RC_ASSERT(cost.bound <= cost.time);
  RC_ASSERT(model.bound(one.collective, one.placement) <= cost.time);
}

RC_GTEST_PROP(NetworkModel, EvaluatorEqualsTheModelOnAnyPlacement, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  Case one = random_case(random);
  const Model model(one.slice, Profile::builtin(one.slice.kind()), random_assumptions(random));
  std::vector<Collective> both{one.collective, one.collective};
  both[1].bytes = Bytes(777);
  BoundEvaluator evaluator(model, both);
  std::vector<double> micros(2);
  for (int i = 0; i < 4; ++i) {
    evaluator.bounds(one.placement, micros);
    RC_ASSERT(near(micros[0], model.bound(both[0], one.placement).value));
    RC_ASSERT(near(micros[1], model.bound(both[1], one.placement).value));
    std::swap(one.placement[random.below(static_cast<std::uint32_t>(one.placement.size()))],
              one.placement[0]);
  }
}

RC_GTEST_PROP(NetworkModel, SymmetriesThatKeepRoutesKeepTheTime, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Case one = random_case(random);
  // The compiler's own ring order may choose among several cycles of a block; the group's order moves along.
  const Assumptions assumptions{Assumptions::Ring::kGiven, random.below(2) == 0
                                                               ? Assumptions::Routing::kDimensionOrderXY
                                                               : Assumptions::Routing::kSplitTies};
  const Model model(one.slice, Profile::builtin(one.slice.kind()), assumptions);
  const auto all = topology::symmetries(one.slice, model.router().rule());
  const topology::Symmetry& symmetry = all[random.below(static_cast<std::uint32_t>(all.size()))];
  RC_LOG(one.text + " under " + symmetry.name);
  const double before = model.cost(one.collective, one.placement).time.value;
  RC_ASSERT(near(model.cost(one.collective, topology::apply(symmetry, one.placement)).time.value, before));
}

RC_GTEST_PROP(NetworkModel, TransposingAPlacementTransposesTheRouting, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  Case one = random_case(random, random.below(4) == 0 ? "v6e:16x16" : "v5e:4x4");
  if (one.collective.hint.colors == 1) {
    one.collective.hint.colors =
        2;  // one colour of an N-dimensional ring begins with x, whichever way it lies
  }
  const auto all = topology::point_symmetries(one.slice);
  const auto turn =
      std::find_if(all.begin(), all.end(), [](const auto& symmetry) { return symmetry.name == "yxz"; });
  RC_ASSERT(turn != all.end());
  const Profile profile = Profile::builtin(one.slice.kind());
  const Model xy(one.slice, profile, {Assumptions::Ring::kGiven, Assumptions::Routing::kDimensionOrderXY});
  const Model yx(one.slice, profile, {Assumptions::Ring::kGiven, Assumptions::Routing::kDimensionOrderYX});
  RC_ASSERT(near(xy.cost(one.collective, one.placement).time.value,
                 yx.cost(one.collective, topology::apply(*turn, one.placement)).time.value));
}

RC_GTEST_PROP(NetworkModel, MoreBandwidthIsNeverSlowerAndMoreBytesNeverFaster, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  Case one = random_case(random);
  Profile profile = Profile::builtin(one.slice.kind());
  const Assumptions assumptions = random_assumptions(random);
  const double time = Model(one.slice, profile, assumptions).cost(one.collective, one.placement).time.value;
  profile.link_bandwidth = profile.link_bandwidth * 1.5;
  const double faster = Model(one.slice, profile, assumptions).cost(one.collective, one.placement).time.value;
  RC_ASSERT(faster <= time * (1 + 1e-9));
  one.collective.bytes = Bytes(one.collective.bytes.value + 1 + random.below(1U << 20));
  const double more = Model(one.slice, profile, assumptions).cost(one.collective, one.placement).time.value;
  RC_ASSERT(more >= faster * (1 - 1e-9));
}

/// What each member must receive, by the collective's definition, in a group of n.
double received(const Collective& collective, std::size_t n) {
  const double bytes = static_cast<double>(collective.bytes.value);
  const double others = static_cast<double>(n - 1) / static_cast<double>(n);
  switch (collective.kind) {
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return bytes * others;
    case Kind::kAllReduce:
      return 2 * bytes * others;
    case Kind::kPermute:
      return n > 1 ? bytes : 0;
    case Kind::kBroadcast:
      return -1;  // the root receives nothing
  }
  return 0;
}

RC_GTEST_PROP(NetworkModel, BytesReceivedAreWhatTheDefinitionDemands, ()) {
  Random random(*rc::gen::arbitrary<std::uint64_t>());
  const Case one = random_case(random);
  const Model model(one.slice, Profile::builtin(one.slice.kind()), random_assumptions(random));
  std::vector<double> in(one.slice.chips(), 0);
  std::vector<double> out(one.slice.chips(), 0);
  for (const Phase& phase : model.schedule(one.collective, one.placement).phases) {
    for (const Flow& flow : phase.flows) {
      in[flow.to.at()] += flow.bytes;
      out[flow.from.at()] += flow.bytes;
    }
  }
  RC_LOG(one.text);
  for (const std::vector<Partition>& group : one.collective.groups) {
    double total = 0;
    for (const Partition partition : group) {
      const Chip chip = one.placement[partition.at()];
      total += in[chip.at()] - out[chip.at()];
      if (one.collective.kind == Kind::kBroadcast) {
        const double wanted = partition == group[0] ? 0.0 : static_cast<double>(one.collective.bytes.value);
        RC_ASSERT(near(in[chip.at()], wanted));
      } else {
        RC_ASSERT(near(in[chip.at()], received(one.collective, group.size())));
      }
    }
    RC_ASSERT(std::abs(total) <
              1e-6 * static_cast<double>(one.collective.bytes.value) * static_cast<double>(group.size()));
  }
  for (const auto& [source, target] : one.collective.pairs) {
    RC_ASSERT(near(in[one.placement[target.at()].at()],
                   source == target ? 0.0 : static_cast<double>(one.collective.bytes.value)));
  }
}

}  // namespace
}  // namespace aoizora::network
