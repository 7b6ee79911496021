#include "aoizora/topology/graph_file.h"

#include <gmock/gmock.h>

#include "aoizora/base/error.h"
#include "aoizora/topology/check.h"
#include "aoizora/topology/describe.h"
#include "aoizora/topology/route.h"

namespace aoizora::topology {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse_graph(text, "lab.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// 0 - 1 - 2, and a one-way shortcut 0 > 2
TEST(GraphFile, RoutesTakeTheFewestLinks) {
  const Slice graph = parse_graph(
      R"({"name": "lab", "nodes": 3, "links": [{"from": 0, "to": 1, "bandwidth_gbps": 10, "latency_us": 2},
          {"from": 1, "to": 2}, {"from": 0, "to": 2, "one_way": true}]})",
      "lab.json");
  EXPECT_EQ(graph.name(), "lab");
  EXPECT_EQ(graph.links().size(), 5U);
  EXPECT_EQ(graph.links()[0].bandwidth.value, 10'000);
  EXPECT_EQ(graph.links()[0].latency.value, 2);
  EXPECT_EQ(Router(graph).hops(Chip(0), Chip(2)), 1);
  EXPECT_EQ(Router(graph).hops(Chip(2), Chip(0)), 2);
}

TEST(GraphFile, ASliceWithASlowLink) {
  const Slice slice =
      parse_graph(R"({"slice": "v5e:4x4", "links": [{"from": [0, 0], "to": [1, 0], "bandwidth_gbps": 20}]})",
                  "slow.json");
  EXPECT_EQ(slice.chips(), 16U);
  EXPECT_EQ(slice.links()[slice.neighbour_link(Chip(0), 0, true).at()].bandwidth.value, 20'000);
  EXPECT_EQ(slice.links()[slice.neighbour_link(Chip(1), 0, false).at()].bandwidth.value, 20'000);
}

TEST(GraphFile, BadInputIsNamed) {
  EXPECT_THAT(error_of("{"), HasSubstr("lab.json: not JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("`nodes` and `links`"));
  EXPECT_THAT(error_of(R"({"nodes": 0, "links": []})"), HasSubstr("from 1 to"));
  EXPECT_THAT(error_of(R"({"nodes": 2})"), HasSubstr("list `links`"));
  EXPECT_THAT(error_of(R"({"nodes": 2, "links": [{"from": 0, "to": 2}]})"),
              HasSubstr("`to` must be a node, 0 to 1"));
  EXPECT_THAT(error_of(R"({"nodes": 2, "links": [{"from": 1, "to": 1}]})"), HasSubstr("linked to itself"));
  EXPECT_THAT(error_of(R"({"nodes": 2, "links": [{"from": 0, "to": 1, "bandwidth_gbps": 0}]})"),
              HasSubstr("above zero"));
  EXPECT_THAT(error_of(R"({"nodes": 2, "links": [{"from": 0, "to": 1}, {"from": 1, "to": 0}]})"),
              HasSubstr("twice"));
  EXPECT_THAT(error_of(R"({"slice": "v5e:4x4", "links": [{"from": [0, 0], "to": [3, 3]}]})"),
              HasSubstr("no link joins"));
  EXPECT_THAT(error_of(R"({"slice": "v5e:4x4", "links": [{"from": [0, 9], "to": [3, 3]}]})"),
              HasSubstr("no chip at"));
}

TEST(CheckSlice, HoldsForEveryKind) {
  for (const char* name :
       {"v5e:1x1", "v5e:1x8", "v5e:4x4", "v6e:8x16", "v6e:16x16", "v5p:2x2x1", "v5p:4x4x4",
        "v4:4x4x8_twisted", "v5p:4x8x8_twisted", "v7x:2x2x2", "v7x:4x4x4", "v5e:2x4+2x4"}) {
    EXPECT_NO_THROW(check_slice(Slice::parse(name))) << name;
  }
}

TEST(Bisection, CountsBothDirections) {
  EXPECT_EQ(bisection_links(Slice::parse("v5e:4x4")), 8U);
  EXPECT_EQ(bisection_links(Slice::parse("v6e:8x16")), 2U * 2 * 8);
  // v5e-256: 1.6 TB/s of 50 GB/s links one way (facts/tpu.md): 32 links each way.
  EXPECT_EQ(bisection_links(Slice::parse("v5e:16x16")), 64U);
}

//  4--5--6--7
//  |  |  |  |
//  0--1--2--3
TEST(Drawing, ShowsChipsAndLinks) {
  EXPECT_THAT(topology_text(Slice::parse("v5e:4x2")),
              HasSubstr("  4--5--6--7\n  |  |  |  |\n  0--1--2--3\n"));
  EXPECT_THAT(topology_text(Slice::parse("v6e:16x2")), HasSubstr("15~\n"));
}

TEST(Order, IsReadAndChecked) {
  const Slice slice = Slice::parse("v5e:2x2");
  EXPECT_EQ(parse_order(slice, "[[1,0],[0,0],[0,1],[1,1]]", "o.json")[0], Chip(1));
  EXPECT_EQ(parse_order(slice, R"({"best": {"coords": [[1,0,0],[0,0,0],[0,1,0],[1,1,0]]}})", "o.json")[3],
            Chip(3));
  EXPECT_THROW(parse_order(slice, "[[1,0],[1,0],[0,1],[1,1]]", "o.json"), UserError);
  EXPECT_THROW(parse_order(slice, "[1]", "o.json"), UserError);
}

}  // namespace
}  // namespace aoizora::topology
