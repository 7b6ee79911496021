#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "aoizora/base/file.h"
#include "aoizora/ir/backend_config.h"
#include "aoizora/ir/program.h"

/// Programs from the TPU compiler. Expected numbers were counted in the text with grep and by reading it,
/// never by our reader.
namespace aoizora::ir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;

Program read_case(const std::string& name) {
  const std::string path = std::string(AOIZORA_CASES_DIR) + "/hlo/" + name + ".hlo.xz";
  return read_hlo(read_text(path), name);
}

const Collective* by_start(const Program& program, std::string_view name) {
  for (const Collective& collective : program.collectives) {
    if (program.instruction(collective.start).name == name) return &collective;
  }
  return nullptr;
}

std::map<std::string, int> count_kinds(const Program& program) {
  std::map<std::string, int> kinds;
  for (const Collective& collective : program.collectives)
    ++kinds[std::string(collective_name(collective.kind))];
  return kinds;
}

/// The text writes 19 all-gathers; 4 operations are split, over 18 fusion computations
/// (`grep -c async_collective_fusion_config`), and one is synchronous: 5 operations.
TEST(CompiledWan, CountsEachSplitAllGatherOnce) {
  const Program program = read_case("wan_1.3b_480p_v5e_4x4_context4_tensor4");
  EXPECT_TRUE(program.scheduled);
  EXPECT_EQ(program.num_partitions, 16);
  EXPECT_EQ(program.computations.size(), 134u);  // grep -c '^[%E].*{$'
  EXPECT_THAT(count_kinds(program), ElementsAre(std::pair("all-gather", 5), std::pair("all-reduce", 6),
                                                std::pair("collective-permute", 15)));
  EXPECT_TRUE(program.warnings.empty());
}

TEST(CompiledWan, SplitAllGatherRunsFromItsStartFusionToItsDoneFusion) {
  const Program program = read_case("wan_1.3b_480p_v5e_4x4_context4_tensor4");
  const Collective* const gather = by_start(program, "async-collective-start");
  ASSERT_NE(gather, nullptr);
  EXPECT_TRUE(gather->async);
  EXPECT_EQ(program.instruction(gather->done).name, "async-collective-done");
  EXPECT_EQ(program.instruction(gather->at).name, "all-gather.45");
  EXPECT_EQ(program.instruction(gather->at).position.line, 773u);
  EXPECT_EQ(gather->operand_bytes, 1LL * 3 * 8192 * 64 * 2 * 2);  // bf16[1,3,8192,64,2]
  EXPECT_EQ(gather->result_bytes, 4 * gather->operand_bytes);
  EXPECT_EQ(gather->executions, 30);  // one per block of the scanned model
  // [4,4]<=[4,4]T(1,0): columns of the 4x4 mesh.
  EXPECT_THAT(gather->groups.expanded(), ElementsAre(ElementsAre(0, 4, 8, 12), ElementsAre(1, 5, 9, 13),
                                                     ElementsAre(2, 6, 10, 14), ElementsAre(3, 7, 11, 15)));
}

TEST(CompiledWan, ReadsWhatTheCompilerEstimated) {
  const Program program = read_case("wan_1.3b_480p_v5e_4x4_context4_tensor4");
  int with_cycles = 0;
  int kernels = 0;
  for (const Computation& computation : program.computations) {
    for (const Instruction& instruction : computation.instructions) {
      const auto config = read_backend_config(instruction);
      EXPECT_EQ(config ? config->estimated_cycles : std::nullopt, estimated_cycles(instruction));
      if (!config) continue;
      if (config->estimated_cycles) ++with_cycles;
      if (!config->kernel_cost) continue;
      ++kernels;
      if (instruction.name == "flash_attention.2") {
        EXPECT_EQ(config->kernel_cost->flops, 414732779520.0);
        EXPECT_EQ(config->kernel_cost->bytes_accessed, 62914560.0);
      }
    }
  }
  EXPECT_EQ(with_cycles, 83);  // grep -c '"estimated_cycles":'
  EXPECT_EQ(kernels, 2);       // grep -c tpu_custom_call
}

TEST(CompiledWan, ReadsTheRingOfAnAllReduce) {
  const Program program = read_case("wan_1.3b_480p_v5e_4x4_context4_tensor4");
  const Collective* const reduce = by_start(program, "all-reduce.19");
  ASSERT_NE(reduce, nullptr);
  const auto config = read_backend_config(program.instruction(reduce->at));
  ASSERT_TRUE(config && config->algorithm);
  EXPECT_EQ(config->algorithm->emitter, "RotatedPincerEmitter");
  EXPECT_EQ(config->algorithm->strategy, "UniDirection1DRingStrategy");
  EXPECT_EQ(config->algorithm->colors, 2);
  EXPECT_EQ(config->algorithm->phases, 1);
  EXPECT_THAT(config->algorithm->cores, ElementsAre(ElementsAre(4), ElementsAre(4)));
  EXPECT_EQ(config->algorithm->has_reordering_map, false);
}

TEST(CompiledTwoSlices, PairsHostTransfers) {
  const Program program = read_case("x2_v5e_4x4_8x4");
  // grep: 21 all-gathers of which 4 split ones over 15 computations, 6 all-reduces, 11 sends, 11 receives.
  EXPECT_THAT(count_kinds(program), ElementsAre(std::pair("all-gather", 10), std::pair("all-reduce", 6),
                                                std::pair("recv", 11), std::pair("send", 11)));
  for (const Collective& collective : program.collectives) {
    const bool transfer =
        collective.kind == CollectiveKind::kSend || collective.kind == CollectiveKind::kRecv;
    EXPECT_EQ(collective.host_transfer, transfer);
    if (!transfer) continue;
    EXPECT_LT(collective.start.instruction, collective.done.instruction);
    EXPECT_EQ(program.instruction(collective.start).attribute("channel_id"),
              program.instruction(collective.done).attribute("channel_id"));
  }
}

}  // namespace
}  // namespace aoizora::ir
