#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aoizora/base/error.h"
#include "aoizora/base/units.h"
#include "aoizora/ir/replica_groups.h"
#include "aoizora/ir/shape.h"

/// The one model of a program that both readers (HLO text, StableHLO + Shardy) fill and every stage reads.
/// Every string_view and span points into memory the Program owns.
namespace aoizora::ir {

using ComputationId = Index<struct ComputationTag>;
/// Position of an instruction in its computation, which is its schedule order when Program::scheduled.
using InstructionId = Index<struct InstructionTag>;
using CollectiveId = Index<struct CollectiveTag>;

/// `key=value` as written; the value is raw text (balanced braces and strings included).
struct Attribute {
  std::string_view key;
  std::string_view value;
  Position position;
};

/// An operand: an instruction of the same computation, and which tuple element where written `%p#1` (else
/// -1).
struct Operand {
  InstructionId instruction;
  std::int32_t tuple_index = -1;
};

struct Instruction {
  std::string_view name;    // without `%`; for MLIR the SSA name of the first result
  std::string_view opcode;  // as written: `all-reduce-start`, `fusion`, `stablehlo.dot_general`
  const Shape* shape = nullptr;
  std::span<const Operand> operands;
  std::span<const Attribute> attributes;
  /// Computations this one calls, in the order written (`calls`, `to_apply`, `condition` before `body`,
  /// branches).
  std::span<const ComputationId> called;
  /// Raw text between the parentheses where it is no operand list: `0` of `parameter(0)`, the literal of a
  /// `constant`, the callee's name for MLIR calls. Empty otherwise. In a region of MLIR, a value of an
  /// enclosing region stands as a `parameter` of the same name with argument `captured`.
  std::string_view argument;
  /// Of the instruction's name.
  Position position;
  /// The collective this instruction is, starts, or finishes; invalid if none.
  CollectiveId collective;

  std::optional<std::string_view> attribute(std::string_view key) const;
};

struct Computation {
  std::string_view name;
  std::vector<Instruction> instructions;
  InstructionId root;
  /// Behind the closing brace in HLO: `execution_thread="..."`.
  std::vector<Attribute> attributes;
  bool entry = false;
  /// How many times one step runs it: entry 1, a loop body its trip count times its caller; a conditional's
  /// branch counts as its caller (an upper bound). 0 when nothing reachable from the entry calls it.
  std::int64_t executions = 0;
};

/// Where an instruction stands.
struct InstructionRef {
  ComputationId computation;
  InstructionId instruction;
  friend bool operator==(const InstructionRef&, const InstructionRef&) = default;
};

enum class CollectiveKind : std::uint8_t {
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kAllToAll,
  kRaggedAllToAll,
  kCollectivePermute,
  kCollectiveBroadcast,
  kSend,
  kRecv
};
std::string_view collective_name(CollectiveKind kind);  // as in HLO: `collective-permute`

/// One collective operation, counted once whatever it is wrapped in (async wrapper, fusion, conditional).
struct Collective {
  CollectiveKind kind{};
  /// The instruction that names the operation (`all-gather`, `all-gather-start`, the one inside the wrapper).
  InstructionRef at;
  /// In the scheduled caller: where it begins and where its result is ready. Equal when it is synchronous.
  /// For a TPU collective split over matmuls (`async_collective_fusion`) start is the fusion that holds
  /// custom-call AsyncCollectiveStart and done the one that holds AsyncCollectiveDone.
  InstructionRef start;
  InstructionRef done;
  bool async = false;
  /// A send or recv through the host: between slices (megascale, over DCN) or with the host itself.
  bool host_transfer = false;
  std::int64_t channel_id = -1;    // -1 when none is written
  std::int64_t operand_bytes = 0;  // per device, summed over operands
  std::int64_t result_bytes = 0;   // per device
  /// Groups of partition (or replica) ids; for a permute the pairs are in `pairs` and groups is empty.
  ReplicaGroups groups;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  /// The groups as the text writes them (`[4,4]<=[16]`, `mesh['a'=2,'b'=4] {'a'}`, MLIR attribute); may be
  /// empty.
  std::string_view groups_text;
  /// True where ids are positions in the flattened (replica, partition) list or partitions; false: replica
  /// ids.
  bool ids_are_partitions = true;
  std::int64_t executions = 0;
};

struct Program {
  enum class Format : std::uint8_t { kHlo, kStableHlo };

  Format format = Format::kHlo;
  std::string file;  // for messages; `-` is standard input
  std::string_view module;
  bool scheduled = false;
  std::int64_t num_partitions = 1;
  std::int64_t num_replicas = 1;
  std::vector<Attribute> module_attributes;
  /// HLO's tables between header and computations (`FileNames`, `StackFrames`, ..), as written.
  std::string_view tables;
  std::vector<Computation> computations;
  ComputationId entry;
  std::vector<Collective> collectives;
  /// Set when the text ends in the middle: where it stops.
  std::optional<Position> truncated;
  std::vector<std::string> warnings;

  /// Number of devices a step runs on.
  std::int64_t devices() const { return num_partitions * num_replicas; }
  const Computation& computation(ComputationId id) const { return computations[id.at()]; }
  const Instruction& instruction(InstructionRef ref) const {
    return computations[ref.computation.at()].instructions[ref.instruction.at()];
  }
  /// Trip count of a `while`: `known_trip_count`, else found from a counted loop's condition; nullopt if
  /// neither.
  std::optional<std::int64_t> trip_count(InstructionRef loop) const;

  /// Owns the text and everything that views point to; defined by the readers.
  std::shared_ptr<const void> storage;
};

/// Reads HLO text. Throws UserError with file, line and column on malformed text.
Program read_hlo(std::string text, std::string file);
/// Reads MLIR in generic form: StableHLO, Shardy and the func dialect. Same errors.
Program read_stablehlo(std::string text, std::string file);
/// What a text is, by its beginning.
enum class TextForm : std::uint8_t { kHlo, kGenericMlir, kPrettyMlir, kMlirBytecode, kBinary };
TextForm text_form(std::string_view text);

/// Chooses by content. MLIR in its pretty form or as bytecode, and other binary formats, are a UserError that
/// says how to get a text.
Program read_program(std::string text, std::string file);

}  // namespace aoizora::ir
