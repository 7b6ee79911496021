#include "aoizora/ir/printer.h"

#include <gtest/gtest.h>

#include "aoizora/base/file.h"

namespace aoizora::ir {
namespace {

/// Everything but positions, which printing changes.
void expect_same(const Program& a, const Program& b) {
  EXPECT_EQ(print_hlo(a), print_hlo(b));
  auto without_lines = [](const Program& program) {
    auto json = program_json(program);
    for (auto& computation : json["computations"]) {
      for (auto& instruction : computation["instructions"]) instruction.erase("line");
    }
    return json;
  };
  EXPECT_EQ(without_lines(a), without_lines(b));
  ASSERT_EQ(a.collectives.size(), b.collectives.size());
  for (std::size_t i = 0; i < a.collectives.size(); ++i) {
    const Collective& x = a.collectives[i];
    const Collective& y = b.collectives[i];
    EXPECT_EQ(x.kind, y.kind);
    EXPECT_EQ(x.at, y.at);
    EXPECT_EQ(x.start, y.start);
    EXPECT_EQ(x.done, y.done);
    EXPECT_EQ(x.groups.expanded(), y.groups.expanded());
    EXPECT_EQ(x.pairs, y.pairs);
    EXPECT_EQ(x.operand_bytes, y.operand_bytes);
    EXPECT_EQ(x.result_bytes, y.result_bytes);
    EXPECT_EQ(x.executions, y.executions);
  }
}

TEST(Printer, RoundTripOfCompiledPrograms) {
  for (const char* name : {"v5e_2x4_2x4", "wan_1.3b_480p_v5e_4x4_context4_tensor4", "x2_v5e_4x4_8x4"}) {
    SCOPED_TRACE(name);
    const Program once =
        read_hlo(read_text(std::string(AOIZORA_CASES_DIR) + "/hlo/" + name + ".hlo.xz"), name);
    expect_same(once, read_hlo(print_hlo(once), name));
  }
}

TEST(Printer, RoundTripOfOddSyntax) {
  const Program once = read_hlo(
      "HloModule odd, x={a=\"}\"}\nFileNames\n1 \"a\"\n\nf { p = (s4[<=3]{0:E(4)}, token[]) parameter(0)\n"
      " ROOT c = f32[?] custom-call(p#0), custom_call_target=\"t\\\"\" }, execution_thread=\"x\"\n"
      "ENTRY e { c = (s4[3], ()) constant(({1,2,3}, ())) ROOT r = (f32[], s32[]) fusion(c), calls=f }\n",
      "odd");
  ASSERT_EQ(once.computations[1].instructions.size(), 2u);
  expect_same(once, read_hlo(print_hlo(once), "odd"));
}

}  // namespace
}  // namespace aoizora::ir
