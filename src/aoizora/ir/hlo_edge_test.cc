#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aoizora/base/file.h"
#include "aoizora/ir/program.h"

/// Each file of tests/cases/hlo_edge, written after a public bug report, and what a user should get for it.
/// "jaxlib" is jaxlib 0.12's own parser (`jaxlib._hlo.hlo_module_from_text`); where we differ the reason
/// stands beside the case.
namespace aoizora::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Groups = ReplicaGroups::List;

Program read_case(const std::string& name) {
  return read_program(read_text(std::string(AOIZORA_CASES_DIR) + "/hlo_edge/" + name), name);
}

struct Refused {
  const char* file;
  const char* message;  // everything behind the file's name
};

class RefusedCase : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedCase, SaysWhere) {
  try {
    read_case(GetParam().file);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()), std::string(GetParam().file) + GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedCase,
    ::testing::Values(
        // jaxlib aborts the process on this one (openxla/xla 49227).
        Refused{"I01_call_start_missing_comp.hlo", ":4:49: error: no computation is called nope"},
        Refused{"I03a_replica_groups.hlo",
                ":8:88: error: the mesh has no axis 'bogus'; its axes are 'd', 't'"},
        // A number names an axis by its place; there are two.
        Refused{"I03b_replica_groups.hlo", ":8:88: error: the mesh has no axis '5'; its axes are 'd', 't'"},
        Refused{"I03l_replica_groups.hlo",
                ":8:69: error: [2,4] names 8 ids, but the list behind '<=' has 16"},
        // jaxlib accepts the overlap; a device cannot take part in one all-reduce twice.
        Refused{"I03o_replica_groups.hlo", ":8:69: error: device 1 is in the replica groups twice"},
        // jaxlib refuses this place of device_ids altogether; the count is wrong in any case.
        Refused{"I03q_replica_groups.hlo", ":8:99: error: 3 device ids for a mesh of 4 positions"},
        Refused{"I04a_sharding.hlo", ":4:55: error: the sharding has 4 tiles, but lists 16 devices"},
        // jaxlib's parser accepts it, its partitioner later cannot: three tile dimensions, two array
        // dimensions, and no last_tile_dim_replicate that would explain the third.
        Refused{"I04c_sharding.hlo", ":4:55: error: the sharding has 3 tile dimensions for an array of 2"}),
    [](const auto& given) {
      const std::string name = given.param.file;
      return name.substr(0, name.find('_'));
    });

struct Accepted {
  const char* file;
  Groups groups;
  int warnings;
};

class AcceptedCase : public ::testing::TestWithParam<Accepted> {};

TEST_P(AcceptedCase, GivesTheGroups) {
  const Program program = read_case(GetParam().file);
  ASSERT_EQ(program.collectives.size(), 1u);
  EXPECT_EQ(program.collectives[0].groups.expanded(), GetParam().groups);
  EXPECT_EQ(program.collectives[0].operand_bytes, 128 * 32 * 4);
  EXPECT_EQ(program.warnings.size(), static_cast<std::size_t>(GetParam().warnings));
}

// Where the mesh has 4 devices and the module 8 partitions, the reader warns that half of them are in no
// group.
INSTANTIATE_TEST_SUITE_P(
    All, AcceptedCase,
    ::testing::Values(
        // device_ids=([2,2]T(1,0)): mesh [[0,2],[1,3]] (row d, column t); along d the columns.
        Accepted{"I03d_replica_groups.hlo", {{0, 1}, {2, 3}}, 1},
        // device_ids=(0,2,1,3): the same mesh written out.
        Accepted{"I03e_replica_groups.hlo", {{0, 1}, {2, 3}}, 1},
        Accepted{"I03g_replica_groups.hlo", {{0, 1, 2, 3}}, 1},
        // Grouped by no axis: each device alone.
        Accepted{"I03h_replica_groups.hlo", {{0}, {1}, {2}, {3}}, 1},
        // iota(8) as 4x2, transposed to 2x4: rows 0 2 4 6 and 1 3 5 7.
        Accepted{"I03k_replica_groups.hlo", {{0, 2, 4, 6}, {1, 3, 5, 7}}, 0},
        // Empty: all.
        Accepted{"I03n_replica_groups.hlo", {{0, 1, 2, 3, 4, 5, 6, 7}}, 0}),
    [](const auto& given) {
      const std::string name = given.param.file;
      return name.substr(0, name.find('_'));
    });

/// I22 and I23 are MLIR in its pretty form, which needs jaxlib; tests/python/test_inspect_referee.py reads
/// them.
TEST(EdgeCases, PrettyMlirSaysWhatToDo) {
  for (const char* name : {"I22_full_remat.mlir", "I23_nondivisible.mlir"}) {
    try {
      read_case(name);
      FAIL() << "accepted";
    } catch (const UserError& error) {
      EXPECT_THAT(error.message(), ::testing::HasSubstr("print_generic_op_form=True"));
    }
  }
}

TEST(EdgeCases, AsyncWrapperCountsOnce) {
  const Program program = read_case("I05_async_wrapped_allreduce.hlo");
  ASSERT_EQ(program.collectives.size(), 1u);
  const Collective& reduce = program.collectives[0];
  EXPECT_EQ(reduce.kind, CollectiveKind::kAllReduce);
  EXPECT_TRUE(reduce.async);
  EXPECT_EQ(program.instruction(reduce.at).name, "ar");
  EXPECT_EQ(program.instruction(reduce.start).name, "fusion-start");
  EXPECT_EQ(program.instruction(reduce.done).name, "fusion-done");
  EXPECT_EQ(reduce.operand_bytes, 4096 * 4);
  EXPECT_EQ(reduce.result_bytes, 4096 * 4);
  EXPECT_EQ(reduce.groups.expanded(), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(reduce.executions, 1);
}

/// The runtime runs a start tagged is_sync at once: one collective, not asynchronous.
TEST(EdgeCases, SynchronousStartCountsOnce) {
  const Program program = read_case("I06_sync_tagged_start.hlo");
  ASSERT_EQ(program.collectives.size(), 1u);
  EXPECT_FALSE(program.collectives[0].async);
  EXPECT_EQ(program.collectives[0].operand_bytes, 8192 * 2);
  EXPECT_EQ(program.instruction(program.collectives[0].done).name, "ard");
}

TEST(EdgeCases, PermuteInIslands) {
  const Program program = read_case("I07_permute_islands.hlo");
  ASSERT_EQ(program.collectives.size(), 1u);
  EXPECT_THAT(program.collectives[0].pairs, ElementsAre(Pair(0, 1), Pair(1, 0), Pair(2, 3), Pair(3, 2),
                                                        Pair(8, 9), Pair(9, 8), Pair(10, 11), Pair(11, 10)));
  EXPECT_THAT(program.collectives[0].groups.expanded(), IsEmpty());
}

}  // namespace
}  // namespace aoizora::ir
