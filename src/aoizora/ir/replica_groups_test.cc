#include "aoizora/ir/replica_groups.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

/// Every form of replica groups against an expansion by definition: coordinates of each device, one after the
/// other, without strides or tricks.
namespace aoizora::ir {
namespace {

using Ids = std::vector<std::int64_t>;
using Groups = ReplicaGroups::List;

Groups parse(const std::string& text, std::int64_t devices) {
  return parse_replica_groups(text, devices, "test", {1, 1}).expanded();
}

std::int64_t product(const Ids& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// Row-major coordinates of `index`.
Ids coordinates(std::int64_t index, const Ids& sizes) {
  Ids result(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {
    result[i] = index % sizes[i];
    index /= sizes[i];
  }
  return result;
}

std::int64_t position(const Ids& where, const Ids& sizes) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) index = index * sizes[i] + where[i];
  return index;
}

/// iota(n).reshape(sizes).transpose(order).flatten(): the element at transposed coordinates c is the iota's
/// at coordinates d with d[order[i]] = c[i].
Ids naive_transposed_iota(const Ids& sizes, const std::vector<std::size_t>& order) {
  Ids transposed(sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) transposed[i] = sizes[order[i]];
  Ids result;
  for (std::int64_t i = 0; i < product(sizes); ++i) {
    const Ids c = coordinates(i, transposed);
    Ids d(sizes.size());
    for (std::size_t k = 0; k < order.size(); ++k) d[order[k]] = c[k];
    result.push_back(position(d, sizes));
  }
  return result;
}

std::vector<std::size_t> random_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i-- > 1;) std::swap(order[i], order[*rc::gen::inRange<std::size_t>(0, i + 1)]);
  return order;
}

Ids random_sizes(std::size_t most, std::int64_t largest) {
  return *rc::gen::resize(
      static_cast<int>(most),
      rc::gen::nonEmpty(rc::gen::container<Ids>(rc::gen::inRange<std::int64_t>(1, largest + 1))));
}

std::int64_t random_divisor(std::int64_t of) {
  Ids divisors;
  for (std::int64_t d = 1; d <= of; ++d) {
    if (of % d == 0) divisors.push_back(d);
  }
  return *rc::gen::elementOf(divisors);
}

RC_GTEST_PROP(ReplicaGroupsProperty, ListIsReadAsWritten, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  const auto order = random_order(count);
  Groups groups(1);
  for (const std::size_t id : order) {  // groups of different sizes, in any order
    if (!groups.back().empty() && *rc::gen::inRange(0, 3) == 0) groups.emplace_back();
    groups.back().push_back(static_cast<std::int64_t>(id));
  }
  std::string text = "{";
  for (const Ids& group : groups)
    text += fmt::format("{}{{{}}}", text.size() > 1 ? "," : "", fmt::join(group, ","));
  RC_ASSERT(parse(text + "}", static_cast<std::int64_t>(count)) == groups);
}

RC_GTEST_PROP(ReplicaGroupsProperty, IotaIsTheReshapedTransposedIota, ()) {
  const Ids sizes = random_sizes(4, 6);
  const std::int64_t count = product(sizes);
  const auto order = random_order(sizes.size());
  const std::int64_t width = random_divisor(count);
  const std::string text =
      fmt::format("[{},{}]<=[{}]T({})", count / width, width, fmt::join(sizes, ","), fmt::join(order, ","));
  const Ids flat = naive_transposed_iota(sizes, order);
  const Groups groups = parse(text, count);
  RC_ASSERT(groups.size() == static_cast<std::size_t>(count / width));
  for (std::int64_t i = 0; i < count; ++i) {
    RC_ASSERT(groups[static_cast<std::size_t>(i / width)][static_cast<std::size_t>(i % width)] ==
              flat[static_cast<std::size_t>(i)]);
  }
  // Without T(..) the order is the identity.
  std::vector<std::size_t> identity(sizes.size());
  std::iota(identity.begin(), identity.end(), std::size_t{0});
  if (order == identity) RC_ASSERT(parse(text.substr(0, text.find('T')), count) == groups);
}

/// A reference to an axis: (pre, size, rest) with pre * size * rest = the axis's size.
struct Reference {
  std::size_t axis;
  std::int64_t pre;
  std::int64_t size;
};

/// Two devices are in one group when they differ at most in the parts that are referenced; inside a group
/// the references count, the last one fastest; groups stand in the order of their first position.
Groups naive_mesh_groups(const Ids& sizes, const Ids& ids, const std::vector<Reference>& references) {
  struct Member {
    Ids group;   // the coordinates with every referenced part zeroed
    Ids inside;  // the referenced parts, in order
    std::int64_t id;
  };
  std::vector<Member> members;
  for (std::int64_t p = 0; p < product(sizes); ++p) {
    Member member{coordinates(p, sizes), {}, ids[static_cast<std::size_t>(p)]};
    for (const Reference& reference : references) {
      const std::int64_t rest = sizes[reference.axis] / (reference.pre * reference.size);
      std::int64_t& coordinate = member.group[reference.axis];
      const std::int64_t part = coordinate / rest % reference.size;
      member.inside.push_back(part);
      coordinate -= part * rest;
    }
    members.push_back(member);
  }
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::tie(a.group, a.inside) < std::tie(b.group, b.inside);
  });
  Groups groups;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == 0 || members[i].group != members[i - 1].group) groups.emplace_back();
    groups.back().push_back(members[i].id);
  }
  return groups;
}

RC_GTEST_PROP(ReplicaGroupsProperty, MeshGroupsByCoordinates, ()) {
  const Ids sizes = random_sizes(3, 8);
  const std::int64_t count = product(sizes);
  std::string text = "mesh[";
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text += fmt::format("{}'a{}'={}", i > 0 ? "," : "", i, sizes[i]);
  text += "]";
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  switch (*rc::gen::inRange(0, 3)) {
    case 0: {
      const auto order = random_order(ids.size());
      std::copy(order.begin(), order.end(), ids.begin());
      text += fmt::format(", device_ids=({})", fmt::join(ids, ","));
      break;
    }
    case 1: {
      const auto order = random_order(sizes.size());
      ids = naive_transposed_iota(sizes, order);
      text += fmt::format(", device_ids=([{}]T({}))", fmt::join(sizes, ","), fmt::join(order, ","));
      break;
    }
    default:
      break;
  }
  std::vector<Reference> references;
  std::string axes;
  for (const std::size_t axis : random_order(sizes.size())) {
    if (*rc::gen::inRange(0, 3) == 0) continue;
    Reference reference{axis, 1, sizes[axis]};
    axes += fmt::format("{}'a{}'", axes.empty() ? "" : ",", axis);
    if (*rc::gen::arbitrary<bool>()) {
      reference.pre = random_divisor(sizes[axis]);
      reference.size = random_divisor(sizes[axis] / reference.pre);
      axes += fmt::format(":({}){}", reference.pre, reference.size);
    }
    references.push_back(reference);
  }
  text += " {" + axes + "}";
  RC_ASSERT(parse(text, count) == naive_mesh_groups(sizes, ids, references));
}

RC_GTEST_PROP(ReplicaGroupsProperty, WhatIsAcceptedIsAPartition, ()) {
  // Small random lists, mostly wrong: what is accepted has each id once and in range, and the other way
  // round.
  const auto groups = *rc::gen::resize(
      6, rc::gen::nonEmpty(rc::gen::container<Groups>(
             rc::gen::nonEmpty(rc::gen::container<Ids>(rc::gen::inRange<std::int64_t>(0, 12))))));
  constexpr std::int64_t kDevices = 10;
  Ids all;
  std::string text = "{";
  for (const Ids& group : groups) {
    all.insert(all.end(), group.begin(), group.end());
    text += fmt::format("{}{{{}}}", text.size() > 1 ? "," : "", fmt::join(group, ","));
  }
  std::sort(all.begin(), all.end());
  const bool good = std::adjacent_find(all.begin(), all.end()) == all.end() && all.back() < kDevices;
  bool accepted = true;
  try {
    parse(text + "}", kDevices);
  } catch (const UserError&) {
    accepted = false;
  }
  RC_ASSERT(accepted == good);
}

TEST(ReplicaGroups, EmptyMeansAll) {
  EXPECT_EQ(parse("{}", 4), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(parse("{}", 0), Groups{});  // the number of devices is not known yet
}

std::string error_of(const std::string& text) {
  try {
    parse(text, 8);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReplicaGroups, ErrorsSayWhere) {
  EXPECT_EQ(error_of("{{0,1},{1,2}}"), "test:1:1: error: device 1 is in the replica groups twice");
  EXPECT_EQ(error_of("{{0,1},{2,x}}"), "test:1:11: error: expected a device id");
  EXPECT_EQ(error_of("[2,4]<=[8]T(0,1)"),
            "test:1:11: error: T(..) must be a permutation of the 1 dimensions");
  EXPECT_EQ(error_of("mesh['a'=2,'a'=2] {'a'}"), "test:1:12: error: axis 'a' is declared twice");
  EXPECT_EQ(error_of("mesh['a'=8] {'a':(2)3}"),
            "test:1:14: error: the sub-axis (2)3 does not divide axis 'a' of size 8");
  EXPECT_EQ(error_of("mesh['a'=8] {'a','a':(2)2}"), "test:1:14: error: axis 'a' is named twice");
  EXPECT_EQ(error_of("mesh['a'=2,'b'=2], device_ids=(0,1,2) {'a'}"),
            "test:1:32: error: 3 device ids for a mesh of 4 positions");
  EXPECT_EQ(error_of("[2,4]<=[8"), "test:1:1: error: the replica groups are incomplete");
  EXPECT_EQ(error_of("{{0,1}} x"), "test:1:9: error: unexpected text after the replica groups");
  EXPECT_EQ(error_of("0,1"),
            "test:1:1: error: expected replica groups: '{{0,1},..}', '[G,S]<=[N]' or 'mesh[..] {..}'");
}

TEST(ReplicaGroups, TwoSubAxesOfOneAxis) {
  // 'a' = (a1, a2, a3) of 2 each; {a3, a1}: inside a group a1 counts fastest. id = 4 a1 + 2 a2 + a3.
  EXPECT_EQ(parse("mesh['a'=8] {'a':(4)2,'a':(1)2}", 8), (Groups{{0, 4, 1, 5}, {2, 6, 3, 7}}));
}

}  // namespace
}  // namespace aoizora::ir
