#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "aoizora/ir/program.h"

/// Syntax, errors and limits of the HLO reader, on texts written here.
namespace aoizora::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(std::string text) {
  try {
    read_hlo(std::move(text), "f.hlo");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

/// A module of one computation.
std::string entry(const std::string& lines) { return "HloModule m\nENTRY e {\n" + lines + "}\n"; }

TEST(HloShapes, AllForms) {
  const Program program =
      read_hlo(entry("  a = f32[2,<=4]{1,0:T(8,128)(2,1)S(1)} parameter(0)\n"
                     "  b = (s4[3]{0:E(4)}, (token[], pred[]), /*index=2*/u8[0]{0}) parameter(1)\n"
                     "  c = f8e4m3fn[3,?]{1,0} parameter(2)\n"
                     "  d = opaque[] parameter(3)\n"
                     "  e = f4e2m1fn[5] parameter(4)\n"
                     "  f = c128[2] parameter(5)\n"
                     "  g = b(bf16[8]{0}) parameter(6)\n"
                     "  ROOT h = s2[] parameter(7)\n"),
               "f.hlo");
  const auto& instructions = program.computations[0].instructions;
  EXPECT_EQ(instructions[0].shape->byte_size(), 2 * 4 * 4);  // the bound counts
  EXPECT_THAT(instructions[0].shape->dynamic, ElementsAre(false, true));
  EXPECT_EQ(instructions[0].shape->memory_space, 1);
  EXPECT_EQ(instructions[1].shape->tuple[0].byte_size(), 2);  // 3 x 4 bits
  EXPECT_EQ(instructions[1].shape->tuple[0].element_size_bits, 4);
  EXPECT_EQ(instructions[1].shape->byte_size(), 2 + 1);
  EXPECT_THAT(instructions[2].shape->dims, ElementsAre(3, -1));
  EXPECT_EQ(instructions[2].shape->byte_size(), 0);  // unbounded
  EXPECT_EQ(instructions[3].shape->byte_size(), 0);
  EXPECT_EQ(instructions[4].shape->byte_size(), 3);  // 5 x 4 bits
  EXPECT_EQ(instructions[5].shape->byte_size(), 32);
  EXPECT_EQ(instructions[6].shape->byte_size(), 16);
  EXPECT_EQ(instructions[7].shape->byte_size(), 1);
}

TEST(HloSyntax, OldAndNewOperandStyles) {
  const Program program = read_hlo(
      entry("  %p = (f32[2]{0}, f32[]) parameter(0)\n"
            "  %x = f32[2]{0} get-tuple-element((f32[2]{0}, f32[]) %p), index=0\n"
            "  y = f32[2]{0} add(f32[2]{0} %x, %p#0), metadata={op_name=\"a\\\"}),b\" source_line=3}\n"
            "  ROOT %z = f32[2]{0} custom-call(x, /*index=1*/ y), custom_call_target=\"t\", "
            "backend_config=\"{\\\"k\\\": [1, 2}\"\n"),
      "f.hlo");
  const auto& instructions = program.computations[0].instructions;
  ASSERT_EQ(instructions.size(), 4u);
  EXPECT_EQ(instructions[2].operands[1].instruction.value, 0);
  EXPECT_EQ(instructions[2].operands[1].tuple_index, 0);
  EXPECT_EQ(instructions[2].attribute("metadata"), "{op_name=\"a\\\"}),b\" source_line=3}");
  EXPECT_EQ(instructions[3].attribute("backend_config"), "\"{\\\"k\\\": [1, 2}\"");
  EXPECT_EQ(instructions[3].position, (Position{6, 8}));
}

TEST(HloSyntax, HeaderTablesLiteralsAndAnyOrder) {
  const Program program = read_hlo(
      "// a comment\nHloModule m, is_scheduled=true, num_partitions=2, unknown={a={b}, c=\"}\"}\n\n"
      "FileNames\n1 \"a.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n1 {file_name_id=1}\n\nStackFrames\n"
      "1 {file_location_id=1}\n\n"
      "ENTRY %e () -> f32[2,2] {\n"
      "  %c = f32[2,2]{1,0} constant({ { 1, -inf }, { nan, (2) } }), origin={{\"c\"}}\n"
      "  ROOT %d = f32[2,2]{1,0} call(%c), to_apply=%later\n}, execution_thread=\"main\"\n\n"
      "%later (p: f32[2,2]) -> f32[2,2] { ROOT %p = f32[2,2]{1,0} parameter(0) }\n",
      "f.hlo");
  EXPECT_TRUE(program.scheduled);
  EXPECT_EQ(program.num_partitions, 2);
  ASSERT_EQ(program.computations.size(), 2u);
  EXPECT_EQ(program.entry.value, 0);
  EXPECT_EQ(program.computations[1].executions, 1);
  EXPECT_EQ(program.computations[0].instructions[0].argument, "{ { 1, -inf }, { nan, (2) } }");
}

TEST(HloErrors, SayWhereAndWhat) {
  EXPECT_EQ(error_of(entry("  a = f32[] parameter(0)\n  ROOT b = f32[] add(a)\n")),
            "f.hlo:4:18: error: add takes 2 operands, not 1");
  EXPECT_EQ(error_of(entry("  a = f32[] parameter(0)\n  ROOT b = f32[] negate(c)\n")),
            "f.hlo:4:25: error: no instruction c before this in the computation");
  EXPECT_EQ(error_of(entry("  a = f33[] parameter(0)\n")), "f.hlo:3:7: error: 'f33' is no element type");
  EXPECT_EQ(error_of(entry("  a = f32[-1] parameter(0)\n")),
            "f.hlo:3:11: error: a dimension must not be negative");
  EXPECT_EQ(error_of(entry("  a = f32[] parameter(0)\n  a = f32[] parameter(1)\n")),
            "f.hlo:4:3: error: a second instruction is called a");
  EXPECT_EQ(error_of(entry("  ROOT a = f32[] parameter(0), key\n")),
            "f.hlo:4:1: error: expected '=' after the attribute's name");
  EXPECT_EQ(error_of(entry("  ROOT a = f32[] parameter(0), m={[}]\n")),
            "f.hlo:3:36: error: expected ']' to close the '[' at 3:35");
  EXPECT_EQ(error_of("HloModule m, num_partitions=0\nENTRY e { ROOT a = f32[] parameter(0) }\n"),
            "f.hlo:1:29: error: num_partitions must be between 1 and 4194304");
  EXPECT_EQ(error_of(""), "f.hlo:1:1: error: no HLO computation in the text");
  EXPECT_EQ(error_of("hello"), "f.hlo:1:1: error: no HLO computation in the text");
  EXPECT_THAT(error_of(entry("  a = f32[] parameter(0)\n  ROOT b = f32[] fusion(a, a), calls=g\n") +
                       "g { ROOT x = f32[] parameter(0) }\n"),
              HasSubstr("fusion passes 2 operands, but g has 1 parameters"));
}

TEST(HloErrors, RecursionIsRefused) {
  EXPECT_EQ(error_of("HloModule m\nf { p = f32[] parameter(0)\n ROOT c = f32[] call(p), to_apply=g }\n"
                     "g { q = f32[] parameter(0)\n ROOT d = f32[] call(q), to_apply=f }\n"
                     "ENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] call(x), to_apply=f }\n"),
            "f.hlo:5:7: error: d calls f, which calls it again: computations must not recurse");
}

TEST(HloLimits, AbsurdSizesAreErrors) {
  EXPECT_THAT(error_of(entry("  ROOT a = f32[9223372036854775807,2] parameter(0)\n")),
              HasSubstr("3:12: error: the shape has more than 2^63 elements"));
  EXPECT_THAT(error_of(entry("  ROOT a = f32[9223372036854775808] parameter(0)\n")),
              HasSubstr("3:16: error: a dimension (a number, '<=N' or '?') does not fit 64 bits"));
  EXPECT_THAT(error_of(entry("  ROOT a = f64[4611686018427387904] parameter(0)\n")),
              HasSubstr("more than 2^63 bytes"));
  const std::string half = "u8[4611686018427387904]";
  EXPECT_THAT(error_of(entry("  ROOT a = (" + half + "," + half + ") parameter(0)\n")),
              HasSubstr("the tuple has more than 2^63 bytes"));
}

TEST(HloLimits, AbsurdNestingIsAnError) {
  EXPECT_THAT(error_of(entry("  ROOT a = " + std::string(1'000'000, '('))),
              HasSubstr("nest deeper than 512"));
  EXPECT_THAT(error_of(entry("  ROOT a = f32[] parameter(0), x=" + std::string(1'000'000, '{'))),
              HasSubstr("nest deeper than 512"));
  EXPECT_THAT(error_of(entry("  ROOT a = f32[] add(" + std::string(1'000'000, '('))),
              HasSubstr("nest deeper than 512"));
  std::string calls =
      "HloModule m\n";  // 200,000 computations, each calling the one before: no recursion of ours
  for (int i = 0; i < 200'000; ++i) {
    calls += "c" + std::to_string(i) + " { p = f32[] parameter(0)\n ROOT r = f32[] ";
    calls += i == 0 ? "negate(p) }\n" : "fusion(p), calls=c" + std::to_string(i - 1) + " }\n";
  }
  calls += "ENTRY e { p = f32[] parameter(0)\n ROOT r = f32[] fusion(p), calls=c199999 }\n";
  EXPECT_EQ(error_of(calls), "no error");
}

TEST(HloLimits, GroupsAreRefusedBeforeTheyAreMade) {
  const auto with_groups = [](const std::string& groups) {
    return "HloModule m, num_partitions=8\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
           " ROOT s = f32[] add(x, y) }\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] "
           "all-reduce(p), "
           "channel_id=1, replica_groups=" +
           groups + ", use_global_device_ids=true, to_apply=add\n}\n";
  };
  EXPECT_THAT(error_of(with_groups("[1000000,1000000]<=[1000000000000]")),
              HasSubstr("f.hlo:7:63: error: the groups name 1000000000000 devices, the program has 8"));
  EXPECT_THAT(error_of(with_groups("[4,4]<=[16]")),
              HasSubstr("the groups name 16 devices, the program has 8"));
  EXPECT_THAT(error_of(with_groups("[9223372036854775807,3]<=[8]")), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(error_of(with_groups("{{0,1},{2,8}}")), HasSubstr("device 8 is out of range"));
  EXPECT_THAT(error_of(with_groups("{{0,-1}}")), HasSubstr("must not be negative"));
  EXPECT_THAT(error_of(with_groups("{{}}")), HasSubstr("a replica group must not be empty"));
  EXPECT_THAT(error_of(with_groups("mesh['a'=1000000,'b'=1000000] {'a'}")), HasSubstr("the program has 8"));
  EXPECT_THAT(error_of(with_groups("[2,4]<=[4,2]T(1,1)")), HasSubstr("must be a permutation"));
  EXPECT_EQ(error_of(with_groups("{{0,1,2},{3,4,5,6,7}}")), "no error");  // unequal sizes are fine
}

TEST(HloGroups, ChannelAndFlagDecideWhatIdsMean) {
  const auto read = [](const std::string& attributes) {
    return read_hlo(
               "HloModule m, replica_count=2, num_partitions=4\nadd { x = f32[] parameter(0)\n y = f32[] "
               "parameter(1)\n ROOT s = f32[] add(x, y) }\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = "
               "f32[4] all-reduce(p)" +
                   attributes + ", to_apply=add\n}\n",
               "f.hlo")
        .collectives.at(0);
  };
  using Groups = ReplicaGroups::List;
  // No channel: across replicas, each partition for itself.
  const Collective replicas = read(", replica_groups={{0,1}}");
  EXPECT_FALSE(replicas.ids_are_partitions);
  EXPECT_EQ(replicas.groups.expanded(), (Groups{{0, 1}}));
  // Channel, no flag: replica ids, but all partitions of them together: id = replica * 4 + partition.
  const Collective both = read(", channel_id=1, replica_groups={{0},{1}}");
  EXPECT_TRUE(both.ids_are_partitions);
  EXPECT_EQ(both.groups.expanded(), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  // Channel and flag: ids in the flattened list.
  const Collective flat = read(", channel_id=1, replica_groups={{0,5},{1,4}}, use_global_device_ids=true");
  EXPECT_EQ(flat.groups.expanded(), (Groups{{0, 5}, {1, 4}}));
  EXPECT_THROW(read(", replica_groups={{0,5}}"), UserError);  // there are two replicas
}

TEST(HloTruncation, IsReadAsFarAsItGoes) {
  const std::string text =
      "HloModule m, num_partitions=2\n%f (p: f32[8]) -> f32[16] {\n  %p = f32[8]{0} parameter(0)\n"
      "  ROOT %g = f32[16]{0} all-gather(%p), channel_id=1, replica_groups={{0,1}}, dimensions={0}, "
      "use_global_device_ids=true\n}\n\nENTRY %e (x: f32[8]) -> f32[16] {\n  %x = f32[8]{0} parameter(0)\n"
      "  ROOT %c = f32[16]{0} call(%x), to_apply=%f\n}\n";
  const std::size_t gather_end = text.find("\n}\n") + 1;
  for (std::size_t cut = 1; cut < text.size() - 2; ++cut) {
    SCOPED_TRACE(cut);
    // Between the two computations the text is whole: one computation.
    if (cut > gather_end && cut <= gather_end + 3) continue;
    try {
      const Program program = read_hlo(text.substr(0, cut), "f.hlo");
      EXPECT_TRUE(program.truncated);
      EXPECT_EQ(program.collectives.size(), cut >= gather_end ? 1u : 0u);
    } catch (const UserError& error) {  // nothing was read yet
      EXPECT_THAT(error.message(), HasSubstr("no HLO computation"));
      EXPECT_LT(cut, text.find("parameter(0)\n") + 13);  // before the first line ends
    }
  }
  EXPECT_FALSE(read_hlo(text, "f.hlo").truncated);
}

TEST(HloTripCounts, FoundFromTheCondition) {
  const auto module = [](const std::string& compare, const std::string& update, const std::string& start) {
    return "HloModule m\nbody { p = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
           " one = s32[] constant(3)\n n = s32[] " +
           update +
           "\n v = f32[4] get-tuple-element(p), index=1\n"
           " ROOT t = (s32[], f32[4]) tuple(n, v) }\n"
           "cond { p = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
           " k = s32[] constant(10)\n ROOT c = pred[] compare(" +
           compare +
           " }\n"
           "ENTRY e { x = f32[4] parameter(0)\n z = s32[] constant(" +
           start +
           ")\n t = (s32[], f32[4]) tuple(z, x)\n"
           " ROOT w = (s32[], f32[4]) while(t), condition=cond, body=body }\n";
  };
  const auto trips = [&](const std::string& compare, const std::string& update, const std::string& start) {
    const Program program = read_hlo(module(compare, update, start), "f.hlo");
    return program.trip_count({program.entry, InstructionId(3)});
  };
  EXPECT_EQ(trips("i, k), direction=LT", "add(i, one)", "0"), 4);  // 0 3 6 9
  EXPECT_EQ(trips("i, k), direction=LE", "add(i, one)", "1"), 4);  // 1 4 7 10
  EXPECT_EQ(trips("k, i), direction=GT", "add(one, i)", "0"), 4);
  EXPECT_EQ(trips("i, k), direction=GT", "subtract(i, one)", "20"), 4);       // 20 17 14 11
  EXPECT_EQ(trips("i, k), direction=NE", "add(i, one)", "1"), 3);             // 1 4 7
  EXPECT_EQ(trips("i, k), direction=NE", "add(i, one)", "0"), std::nullopt);  // passes 10: never ends
  EXPECT_EQ(trips("i, k), direction=LT", "add(i, one)", "10"), 0);
  EXPECT_EQ(trips("i, k), direction=LT", "subtract(i, one)", "0"), std::nullopt);
  EXPECT_EQ(trips("i, k), direction=LT", "multiply(i, one)", "1"), std::nullopt);
  const Program program = read_hlo(module("i, k), direction=LT", "add(i, one)", "0"), "f.hlo");
  EXPECT_EQ(program.computations[0].executions, 4);
  EXPECT_EQ(program.computations[1].executions, 5);  // the condition is asked once more
}

}  // namespace
}  // namespace aoizora::ir
