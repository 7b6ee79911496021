#include <gmock/gmock.h>

#include <algorithm>

#include "aoizora/base/error.h"
#include "aoizora/base/file.h"
#include "aoizora/simulate/op_cost.h"
#include "aoizora/simulate/workload.h"

/// Lowering of small programs, by hand, and of compiled ones, against numbers counted in their text.
namespace aoizora::simulate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// 1 GHz, 10^6 FLOP/µs, 1000 bytes/µs, all at full efficiency.
network::Profile round_profile() {
  network::Profile profile = network::Profile::builtin("v5e");
  profile.clock_per_micro = 1000;
  profile.peak_flops_per_micro = 1e6;
  profile.hbm_bandwidth = BytesPerMicro(1000);
  profile.matmul_efficiency = profile.flash_efficiency = profile.hbm_efficiency = 1;
  return profile;
}

ir::Program read(const std::string& body, const std::string& before = "", bool scheduled = true) {
  return ir::read_hlo("HloModule m" + std::string(scheduled ? ", is_scheduled=true" : "") +
                          ", num_partitions=4\n\n" + before + "\nENTRY main {\n" + body + "}\n",
                      "t.hlo");
}

std::vector<Op::Kind> kinds(const std::vector<Op>& ops) {
  std::vector<Op::Kind> found;
  for (const Op& op : ops) found.push_back(op.kind);
  return found;
}

TEST(Lower, CompilerCyclesComeFirst) {
  const auto program = read(R"(
  a = f32[8,8] parameter(0)
  ROOT f = f32[8,8] negate(a), backend_config={"window_config":{"estimated_cycles":"2500"}}
)");
  EXPECT_DOUBLE_EQ(lower(program, round_profile()).compute.value, 2.5);
}

/// 2 * (100*50) * 200 FLOPs = 2 µs; bytes (100*200 + 200*50 + 100*50) * 4 = 140 kB = 140 µs at 1000 bytes/µs.
/// With HBM a thousand times as fast the FLOPs decide.
TEST(Lower, DotByRoofline) {
  const auto program = read(R"(
  a = f32[100,200] parameter(0)
  b = f32[200,50] parameter(1)
  ROOT d = f32[100,50] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)");
  network::Profile profile = round_profile();
  EXPECT_DOUBLE_EQ(lower(program, profile).compute.value, 140);
  profile.hbm_bandwidth = BytesPerMicro(1e6);
  EXPECT_DOUBLE_EQ(lower(program, profile).compute.value, 2);
  profile.matmul_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(lower(program, profile).compute.value, 4);
}

/// Kernel [3,3,16,32] as 01io: 2 * (8*6*6*32) * (3*3*16) FLOPs.
TEST(Lower, ConvolutionFlopsOfAFusion) {
  const auto program = read(R"(
  x = f32[8,8,8,16] parameter(0)
  k = f32[3,3,16,32] parameter(1)
  ROOT f = f32[8,6,6,32] fusion(x, k), kind=kOutput, calls=fused
)",
                            R"(fused {
  p = f32[8,8,8,16] parameter(0)
  q = f32[3,3,16,32] parameter(1)
  ROOT c = f32[8,6,6,32] convolution(p, q), window={size=3x3}, dim_labels=b01f_01io->b01f
}
)");
  EXPECT_DOUBLE_EQ(
      matmul_flops(program, program.instruction({program.entry, ir::InstructionId(2)}).called[0]),
      2.0 * (8 * 6 * 6 * 32) * (3 * 3 * 16));
}

TEST(Lower, KernelByItsDeclaredCost) {
  const auto program = read(R"(
  q = bf16[1,4,64,32] parameter(0)
  ROOT c = bf16[1,4,64,32] custom-call(q), custom_call_target="tpu_custom_call", backend_config={"custom_call_config":{"cost_estimate":{"flops":"7000000","bytes_accessed":"100"}}}
)");
  EXPECT_DOUBLE_EQ(lower(program, round_profile()).compute.value, 7);
}

/// Without a declared cost: 4 * (1*4*64*32) * 128 keys = 4,194,304 FLOPs = 4.19 µs; bytes far more at 1000
/// bytes/µs, so HBM is made fast. Never zero.
TEST(Lower, KernelByItsShapes) {
  const auto program = read(R"(
  q = bf16[1,4,64,32] parameter(0)
  k = bf16[1,4,128,32] parameter(1)
  v = bf16[1,4,128,32] parameter(2)
  ROOT c = bf16[1,4,64,32] custom-call(q, k, v), custom_call_target="tpu_custom_call"
)");
  network::Profile profile = round_profile();
  profile.hbm_bandwidth = BytesPerMicro(1e9);
  const Workload work = lower(program, profile);
  EXPECT_DOUBLE_EQ(work.compute.value, 4.194304);
  EXPECT_EQ(work.unpriced.value, 0);
}

TEST(Lower, ReportsWhatNothingPrices) {
  const auto program = read(R"(
  a = f32[250] parameter(0)
  ROOT c = f32[250] custom-call(a), custom_call_target="Mystery"
)");
  const Workload work = lower(program, round_profile());
  EXPECT_DOUBLE_EQ(work.unpriced.value, 2);  // 2 * 1000 bytes: a guess
  EXPECT_THAT(work.unpriced_ops, ElementsAre("c (custom-call \"Mystery\") at t.hlo:7:8"));
  EXPECT_THAT(work.warnings, ElementsAre(HasSubstr("100.0 % of the compute time is a guess")));
}

TEST(Lower, AsynchronousCollectivesAndCopies) {
  const auto program = read(R"(
  a = f32[250] parameter(0)
  g = (f32[250], f32[1000]) all-gather-start(a), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  s = (f32[250], f32[250], u32[]) copy-start(a)
  n = f32[250] negate(a), backend_config={"window_config":{"estimated_cycles":"1000"}}
  e = f32[250] copy-done(s)
  ROOT h = f32[1000] all-gather-done(g)
)");
  const Workload work = lower(program, round_profile());
  EXPECT_THAT(kinds(work.blocks[0].ops),
              ElementsAre(Op::Kind::kStart, Op::Kind::kDmaStart, Op::Kind::kCompute, Op::Kind::kDmaDone,
                          Op::Kind::kDone));
  EXPECT_DOUBLE_EQ(work.blocks[0].ops[1].duration.value, 1);  // 1000 bytes
  ASSERT_EQ(work.collectives.size(), 1u);
  EXPECT_EQ(work.collectives[0].bytes.value, 4000);  // the gathered array
  EXPECT_THAT(work.warnings, IsEmpty());
}

constexpr const char* kBranches = R"(cheap {
  p = f32[10] parameter(0)
  ROOT c = f32[10] negate(p), backend_config={"window_config":{"estimated_cycles":"1000"}}
}
dear {
  p = f32[10] parameter(0)
  ROOT d = f32[10] negate(p), backend_config={"window_config":{"estimated_cycles":"5000"}}
}
)";

TEST(Lower, ConditionalIsItsDearestBranchAndSaysSo) {
  const auto program = read(R"(
  i = s32[] parameter(0)
  a = f32[10] parameter(1)
  ROOT r = f32[10] conditional(i, a, a), branch_computations={dear, cheap}
)",
                            kBranches);
  const Workload work = lower(program, round_profile());
  EXPECT_DOUBLE_EQ(work.compute.value, 5);
  EXPECT_THAT(work.warnings, ElementsAre(HasSubstr("the dearest, dear, is taken")));
}

TEST(Lower, LoopKeepsItsTrips) {
  const auto program = read(R"(
  t = f32[10] parameter(0)
  ROOT w = f32[10] while(t), condition=always, body=dear, backend_config={"known_trip_count":{"n":"12"}}
)",
                            std::string(kBranches) + R"(always {
  p = f32[10] parameter(0)
  ROOT c = pred[] constant(true)
}
)");
  const Workload work = lower(program, round_profile());
  ASSERT_EQ(work.blocks.size(), 2u);
  EXPECT_EQ(work.blocks[0].ops[0].trips, 12);
  EXPECT_DOUBLE_EQ(work.compute.value, 60);
}

TEST(Lower, SaysWhenThereIsNoSchedule) {
  const Workload work = lower(read("  ROOT a = f32[10] parameter(0)\n", "", false), round_profile());
  EXPECT_THAT(work.warnings, ElementsAre(HasSubstr("not scheduled")));
}

TEST(Lower, RefusesMlir) {
  const auto program = ir::read_stablehlo(R"("builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "main"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
)",
                                          "t.mlir");
  EXPECT_THROW(lower(program, round_profile()), UserError);
}

/// Numbers from the text (`grep`): 26 collectives (ir/hlo_compiled_test.cc), 30 trips, flash attention of
/// 414,732,779,520 FLOPs at half of 197 TFLOP/s = 4210.5 µs, a fusion of 176,076 cycles at 1500 a µs.
TEST(Lower, CompiledWan) {
  const std::string file =
      std::string(AOIZORA_CASES_DIR) + "/hlo/wan_1.3b_480p_v5e_4x4_context4_tensor4.hlo.xz";
  const ir::Program program = ir::read_hlo(read_text(file), file);
  network::Profile profile = network::Profile::builtin("v5e");
  profile.flash_efficiency = 0.5;
  const Workload work = lower(program, profile);
  EXPECT_EQ(work.partitions, 16);
  EXPECT_EQ(work.collectives.size(), 26u);
  EXPECT_THAT(work.warnings, IsEmpty());
  EXPECT_EQ(work.unpriced.value, 0);
  ASSERT_EQ(work.blocks.size(), 2u);
  const auto& body = work.blocks[1].ops;
  const auto duration = [&](std::string_view name) {
    const auto found = std::find_if(body.begin(), body.end(), [&](const Op& op) {
      return op.kind == Op::Kind::kCompute && program.instruction(op.source).name == name;
    });
    return found == body.end() ? 0.0 : found->duration.value;
  };
  EXPECT_NEAR(duration("flash_attention.2"), 414732779520.0 / (197e6 * 0.5), 1e-6);
  EXPECT_DOUBLE_EQ(duration("convert_reduce_fusion.6"), 176076 / 1500.0);
  EXPECT_DOUBLE_EQ(duration("async-collective-start"), 0);  // only sends a collective off
  const auto count = [&](Op::Kind kind) {
    return std::count_if(body.begin(), body.end(), [&](const Op& op) { return op.kind == kind; });
  };
  EXPECT_EQ(count(Op::Kind::kStart), 19);  // 15 permutes and 4 split all-gathers
  EXPECT_EQ(count(Op::Kind::kDone), 19);
  EXPECT_EQ(count(Op::Kind::kSync), 7);  // 6 all-reduces, 1 all-gather
  EXPECT_EQ(count(Op::Kind::kDmaStart), count(Op::Kind::kDmaDone));
  EXPECT_EQ(work.blocks[0].ops.size() > 0, true);
}

}  // namespace
}  // namespace aoizora::simulate
