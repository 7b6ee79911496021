#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aoizora/base/file.h"
#include "aoizora/ir/program.h"

namespace aoizora::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Program read_case(const std::string& name) {
  return read_program(read_text(std::string(AOIZORA_CASES_DIR) + "/mlir/" + name), name);
}

const Collective& only(const Program& program, CollectiveKind kind, std::string_view opcode) {
  for (const Collective& collective : program.collectives) {
    if (collective.kind == kind && program.instruction(collective.at).opcode == opcode) return collective;
  }
  throw std::runtime_error("no such collective");
}

/// shardy_ops.mlir, printed by jaxlib from a text that its verifier accepts. Mesh x=4, y=2, row-major:
///   id = 2 x + y;  x = (x1, x2) with x = 2 x1 + x2.
TEST(Shardy, GathersAlongASubAxis) {
  const Program program = read_case("shardy_ops.mlir");
  EXPECT_EQ(program.format, Program::Format::kStableHlo);
  const Collective& gather = only(program, CollectiveKind::kAllGather, "sdy.all_gather");
  // Axis "x":(2)2 is the minor half x2: ids that differ by 2.
  EXPECT_THAT(gather.groups.expanded(),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  // Global f32[16,16,16] sharded {y}, {}, {x:(1)2} afterwards: 8*16*8 floats, half of that before.
  EXPECT_EQ(gather.result_bytes, 8 * 16 * 8 * 4);
  EXPECT_EQ(gather.operand_bytes, 8 * 16 * 4 * 4);
}

TEST(Shardy, UsesTheDeviceIdsOfTheMesh) {
  const Program program = read_case("shardy_ops.mlir");
  // @dev lists the ids 7..0: groups along x of mesh positions (0,2,4,6), (1,3,5,7).
  const Collective& scatter = only(program, CollectiveKind::kReduceScatter, "sdy.reduce_scatter");
  EXPECT_THAT(scatter.groups.expanded(), ElementsAre(ElementsAre(7, 5, 3, 1), ElementsAre(6, 4, 2, 0)));
  EXPECT_EQ(scatter.operand_bytes, 16 * 16 * 16 * 4);
  EXPECT_EQ(scatter.result_bytes, 16 * 4 * 16 * 4);
}

/// {y}, {}, {x} → {x1}, {}, {x2, y}. Device id = 4 x1 + 2 x2 + y holds rows y, columns 2 x1 + x2; it wants
/// rows x1, columns 2 x2 + y. So the shard (row r, column 2a+b) goes from (x1,x2,y) = (a,b,r) to (r,a,b):
/// 0→0, 1 (0,0,1)→4 (1,0,0), 2 (0,1,0)→1 (0,0,1), 3 (0,1,1)→5, 4 (1,0,0)→2, 5→6, 6→3, 7→7.
TEST(Shardy, FindsThePairsOfAPermute) {
  const Program program = read_case("shardy_ops.mlir");
  const Collective& permute = only(program, CollectiveKind::kCollectivePermute, "sdy.collective_permute");
  EXPECT_THAT(permute.pairs, ElementsAre(Pair(0, 0), Pair(1, 4), Pair(2, 1), Pair(3, 5), Pair(4, 2),
                                         Pair(5, 6), Pair(6, 3), Pair(7, 7)));
  EXPECT_EQ(permute.operand_bytes, 8 * 16 * 4 * 4);
}

TEST(StableHlo, CountsALoopWhoseLimitIsCaptured) {
  const Program program = read_case("shardy_ops.mlir");
  // 0, 1, .. below 12; the limit is a constant outside of the loop, the gather in a function it calls.
  const Collective& gather = only(program, CollectiveKind::kAllGather, "stablehlo.all_gather");
  EXPECT_EQ(gather.executions, 12);
  EXPECT_TRUE(program.warnings.empty());
}

TEST(StableHlo, ReadsManualComputationsAsRegions) {
  const Program program = read_case("shardy_ops.mlir");
  const Collective& reduce = only(program, CollectiveKind::kAllReduce, "stablehlo.all_reduce");
  EXPECT_EQ(reduce.operand_bytes, 8 * 16 * 4 * 4);
  EXPECT_THAT(reduce.groups.expanded(),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_EQ(reduce.executions, 1);
}

/// One guided Wan step, ring attention over 8 chips; grep on the text gives 2 permutes (in the ring's loop)
/// and 30 blocks; the ring's loop counts from 0 to 7.
TEST(StableHlo, ReadsAWanStepWithRingAttention) {
  const Program program = read_case("wan_v5e-4x4_2x8x1_ring.mlir.xz");
  EXPECT_TRUE(program.warnings.empty());
  EXPECT_EQ(program.num_partitions, 16);
  int permutes = 0;
  for (const Collective& collective : program.collectives) {
    if (collective.kind != CollectiveKind::kCollectivePermute) continue;
    ++permutes;
    EXPECT_EQ(collective.executions, 30 * 7);
    EXPECT_EQ(collective.pairs.size(), 16u);
  }
  EXPECT_EQ(permutes, 2);
}

std::string error_of(const std::string& text) {
  try {
    read_stablehlo(text, "f.mlir");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StableHloErrors, SayWhereAndWhat) {
  const std::string head =
      "\"builtin.module\"() ({\n  \"func.func\"() <{sym_name = \"main\"}> ({\n  ^bb0(%a: tensor<4xf32>):\n";
  const std::string tail =
      "    \"func.return\"(%a) : (tensor<4xf32>) -> ()\n  }) : () -> ()\n}) : () -> ()\n";
  EXPECT_EQ(error_of(head + tail), "no error");
  EXPECT_THAT(error_of(head + "    %b = \"stablehlo.abs\"(%c) : (tensor<4xf32>) -> tensor<4xf32>\n" + tail),
              HasSubstr("f.mlir:4:26: error: no value %c before this"));
  EXPECT_THAT(error_of(head + "    %b = \"stablehlo.abs\"(%a) : () -> tensor<4xf32>\n" + tail),
              HasSubstr("f.mlir:4:32: error: 1 operands, but 0 operand types"));
  EXPECT_THAT(error_of(head + "    %b:2 = \"stablehlo.abs\"(%a) : (tensor<4xf32>) -> tensor<4xf32>\n" + tail),
              HasSubstr("2 results, but the type has 1"));
  EXPECT_THAT(error_of(head + "    %b = stablehlo.abs %a : tensor<4xf32>\n" + tail),
              HasSubstr("f.mlir:4:10: error: expected an operation in MLIR's generic form"));
  EXPECT_THAT(
      error_of(head + "    %b = \"func.call\"(%a) <{callee = @g}> : (tensor<4xf32>) -> tensor<4xf32>\n" +
               tail),
      HasSubstr("f.mlir:4:37: error: no function is called @g"));
}

TEST(StableHloErrors, ATruncatedTextIsReadAsFarAsItGoes) {
  const std::string text = read_text(std::string(AOIZORA_CASES_DIR) + "/mlir/shardy_ops.mlir");
  const Program whole = read_stablehlo(text, "f.mlir");
  EXPECT_FALSE(whole.truncated);
  // Cut inside the loop's body: the call to @f is read, @f is not there.
  const std::size_t cut = text.find("\"func.call\"");
  const Program part = read_stablehlo(text.substr(0, text.find('\n', cut) + 1), "f.mlir");
  ASSERT_TRUE(part.truncated);
  EXPECT_EQ(part.truncated->line, 34u);
  EXPECT_EQ(part.collectives.size(), whole.collectives.size() - 1);
}

}  // namespace
}  // namespace aoizora::ir
