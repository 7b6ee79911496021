#include <algorithm>
#include <cstring>
#include <limits>

#include "aoizora/ir/name_table.h"
#include "aoizora/ir/opcodes.h"
#include "aoizora/ir/sharding_check.h"
#include "aoizora/ir/storage.h"

/// HLO text (openxla.org/xla/hlo_text; xla/hlo/parser). One pass; names are resolved when they are met, calls
/// at the end because a computation may stand behind its caller.
namespace aoizora::ir {
namespace {

constexpr std::size_t kMaxInstructions = std::numeric_limits<std::int32_t>::max();

/// A call by name, to be resolved when all computations are known.
struct PendingCall {
  ComputationId* slot;
  std::string_view name;
};

/// Attributes whose value names computations, in the order `called` lists them: condition before body, true
/// before false.
int call_rank(std::string_view key) {
  constexpr std::string_view kKeys[] = {"condition",
                                        "body",
                                        "true_computation",
                                        "false_computation",
                                        "branch_computations",
                                        "calls",
                                        "to_apply",
                                        "called_computations",
                                        "select",
                                        "scatter"};
  for (std::size_t i = 0; i < std::size(kKeys); ++i) {
    if (key == kKeys[i]) return static_cast<int>(i);
  }
  return -1;
}

class HloReader {
 public:
  HloReader(std::shared_ptr<Storage> storage, std::string file)
      : storage_(std::move(storage)), scan_(storage_->text, program_.file) {
    program_.file = std::move(file);
  }

  Program read() {
    try {
      module();
    } catch (const Truncated& cut) {
      program_.truncated = scan_.position(cut.at);
      finish_computation(true);
    }
    if (program_.computations.empty()) scan_.fail(scan_.begin(), "no HLO computation in the text");
    resolve_calls();
    choose_entry();
    count_executions(program_);
    find_collectives(program_, counts_given_);
    program_.storage = storage_;
    return std::move(program_);
  }

 private:
  void module() {
    scan_.skip_space();
    if (peek_word() == "HloModule") header();
    while (true) {
      scan_.skip_space();
      if (scan_.at_end()) break;
      if (scan_.is_digit(*scan_.p)) scan_.fail(scan_.p, "expected a computation");
      if (!table()) computation();
    }
    if (!program_.entry.valid() && program_.computations.size() != 1) throw Truncated{scan_.end()};
  }

  /// The identifier at p without moving.
  std::string_view peek_word() const {
    const char* end = scan_.p;
    while (Scanner::is_identifier(*end)) ++end;
    return {scan_.p, static_cast<std::size_t>(end - scan_.p)};
  }

  void header() {
    scan_.p += std::string_view("HloModule").size();
    scan_.skip_space();
    if (*scan_.p == '%') ++scan_.p;
    program_.module = scan_.identifier();
    if (program_.module.empty()) scan_.fail_here("expected the module's name");
    attributes();
    program_.module_attributes.assign(attributes_.begin(), attributes_.end());
    for (const Attribute& attribute : attributes_) {
      if (attribute.key == "is_scheduled") program_.scheduled = attribute.value == "true";
      if (attribute.key == "num_partitions") program_.num_partitions = device_count(attribute);
      if (attribute.key == "replica_count") program_.num_replicas = device_count(attribute);
    }
    if (program_.devices() > kMaxGroupIds) {
      scan_.fail(scan_.p, fmt::format("{} devices are more than {}", program_.devices(), kMaxGroupIds));
    }
  }

  std::int64_t device_count(const Attribute& attribute) {
    counts_given_ = true;
    Scanner value({attribute.value.data(), attribute.value.size() + 1}, program_.file);
    const std::int64_t count = value.integer("a number of devices");
    if (value.p != attribute.value.data() + attribute.value.size() || count < 1 || count > kMaxGroupIds) {
      scan_.fail(attribute.value.data(),
                 fmt::format("{} must be between 1 and {}", attribute.key, kMaxGroupIds));
    }
    return count;
  }

  /// `FileNames`, `FunctionNames`, `FileLocations`, `StackFrames`: numbered rows, then the next section.
  bool table() {
    const std::string_view word = peek_word();
    if (word != "FileNames" && word != "FunctionNames" && word != "FileLocations" && word != "StackFrames") {
      return false;
    }
    const char* const start = scan_.p;
    scan_.p += word.size();
    scan_.skip_space();
    if (!Scanner::is_digit(*scan_.p)) {  // a computation of that name
      if (scan_.at_end()) throw Truncated{start};
      const bool is_computation = *scan_.p == '(' || *scan_.p == '{';
      if (is_computation) scan_.p = start;
      return !is_computation;
    }
    while (Scanner::is_digit(*scan_.p)) {
      scan_.integer("a row number");
      scan_.skip_space();
      if (*scan_.p == '"') {
        scan_.skip_string();
      } else if (*scan_.p == '{') {
        scan_.skip_balanced();
      } else {
        scan_.fail_here("expected a string or braces behind the row number");
      }
      scan_.skip_space();
    }
    if (!program_.computations.empty()) return true;  // not where the compiler puts them; nothing needs them
    const char* const first = program_.tables.empty() ? start : program_.tables.data();
    const char* end = scan_.p;
    while (Scanner::is_space(end[-1])) --end;
    program_.tables = {first, static_cast<std::size_t>(end - first)};
    return true;
  }

  std::string_view name(const char* what) {
    if (*scan_.p == '%') ++scan_.p;
    const std::string_view result = scan_.identifier();
    if (result.empty()) scan_.fail_here(fmt::format("expected {}", what));
    return result;
  }

  void computation() {
    current_ = {};
    const char* at = scan_.p;
    if (peek_word() == "ENTRY") {
      scan_.p += std::string_view("ENTRY").size();
      scan_.skip_space();
      current_.entry = true;
      at = scan_.p;
    }
    current_.name = name("a computation (`%name (parameters) -> shape {`)");
    current_at_ = at;
    scan_.skip_space();
    if (*scan_.p == '(') {
      scan_.skip_balanced();
      scan_.expect_arrow("'->' after the parameters");
      scan_.skip_space();
      storage_->shapes.next(scan_);
    }
    scan_.expect('{', "'{' before the instructions");
    open_ = true;
    while (true) {
      scan_.skip_space();
      if (*scan_.p == '}') break;
      if (scan_.at_end()) throw Truncated{scan_.p};
      instruction();
    }
    if (instructions_.empty()) scan_.fail(scan_.p, "a computation needs at least one instruction");
    ++scan_.p;
    attributes();  // execution_thread="..."
    current_.attributes.assign(attributes_.begin(), attributes_.end());
    finish_computation(false);
  }

  void finish_computation(bool truncated) {
    if (!open_) return;
    open_ = false;
    if (truncated && instructions_.empty()) return;
    if (!current_.root.valid())
      current_.root = InstructionId(static_cast<std::int32_t>(instructions_.size()) - 1);
    const auto id = static_cast<std::int32_t>(program_.computations.size());
    if (computations_.insert(current_.name, id) != id) {
      scan_.fail(current_at_, fmt::format("a second computation is called {}", current_.name));
    }
    if (current_.entry) {
      if (program_.entry.valid()) scan_.fail(current_at_, "a second ENTRY computation");
      program_.entry = ComputationId(id);
    }
    current_.instructions.assign(instructions_.begin(), instructions_.end());
    program_.computations.push_back(std::move(current_));
    parameters_.push_back(parameter_count_);
    for (const PendingCall& call : calls_in_computation_) calls_.push_back(call);
    calls_in_computation_.clear();
    instructions_.clear();
    names_.clear();
    parameter_count_ = 0;
  }

  void instruction() {
    Instruction result;
    const char* at = scan_.p;
    bool root = false;
    std::string_view word = peek_word();
    if (word == "ROOT") {
      scan_.p += word.size();
      scan_.skip_space();
      root = true;
      at = scan_.p;
    }
    result.position = scan_.position(at);
    result.name = name("an instruction (`%name = shape opcode(operands)`) or '}'");
    scan_.expect('=', "'=' after the instruction's name");
    scan_.skip_space();
    result.shape = storage_->shapes.next(scan_);
    scan_.skip_space();
    const char* const opcode_at = scan_.p;
    result.opcode = scan_.identifier();
    if (result.opcode.empty()) scan_.fail_here("expected an opcode after the shape");
    const OpcodeInfo* const info = find_opcode(result.opcode);
    scan_.skip_space();
    if (*scan_.p != '(') scan_.fail_here("expected '(' after the opcode");
    if (info != nullptr && info->raw_argument) {
      const char* const open = scan_.p;
      scan_.skip_balanced();
      result.argument = {open + 1, static_cast<std::size_t>(scan_.p - open) - 2};
      if (result.opcode == "parameter") ++parameter_count_;
    } else {
      ++scan_.p;
      operands();
      check_operand_count(opcode_at, result.opcode, info);
      result.operands = storage_->arena.copy(operands_);
    }
    attributes();
    if (scan_.in_last_line()) throw Truncated{at};  // the line may go on
    result.attributes = storage_->arena.copy(attributes_);
    calls(result);
    const auto id = static_cast<std::int32_t>(instructions_.size());
    if (instructions_.size() >= kMaxInstructions) scan_.fail(at, "too many instructions");
    if (names_.insert(result.name, id) != id) {
      scan_.fail(at, fmt::format("a second instruction is called {}", result.name));
    }
    if (root) {
      if (current_.root.valid()) scan_.fail(at, "a second ROOT in the computation");
      current_.root = InstructionId(id);
    }
    instructions_.push_back(result);
  }

  void check_operand_count(const char* at, std::string_view opcode, const OpcodeInfo* info) {
    if (info == nullptr) return;
    const auto count = static_cast<std::ptrdiff_t>(operands_.size());
    if (count >= info->min_operands && (info->max_operands < 0 || count <= info->max_operands)) return;
    const std::string wanted = info->min_operands == info->max_operands
                                   ? fmt::format("{}", info->min_operands)
                                   : fmt::format("at least {}", info->min_operands);
    scan_.fail(at,
               fmt::format("{} takes {} operand{}, not {}", opcode, wanted, wanted == "1" ? "" : "s", count));
  }

  void operands() {
    operands_.clear();
    scan_.skip_space();
    if (*scan_.p == ')') {
      ++scan_.p;
      return;
    }
    while (true) {
      operand();
      scan_.skip_space();
      if (*scan_.p == ',') {
        ++scan_.p;
        scan_.skip_space();
        continue;
      }
      if (*scan_.p != ')') scan_.fail_here("expected ',' or ')' after an operand");
      ++scan_.p;
      return;
    }
  }

  void operand() {
    if (*scan_.p != '%') {
      const char* end = scan_.p;
      while (Scanner::is_identifier(*end)) ++end;
      // Only a shape has a bracket behind its first word, or begins with one.
      if (*end == '[' || *end == '(') {
        skip_shape(scan_);
        scan_.skip_space();
      }
    }
    const char* const at = scan_.p;
    const std::string_view operand_name = name("an operand's name");
    Operand result;
    result.instruction = InstructionId(names_.find(operand_name));
    if (!result.instruction.valid()) {
      scan_.fail(at, fmt::format("no instruction {} before this in the computation", operand_name));
    }
    if (*scan_.p == '#') {
      ++scan_.p;
      const std::int64_t index = scan_.integer("a tuple index");
      const Shape& shape = *instructions_[result.instruction.at()].shape;
      if (index < 0 || !shape.is_tuple() || static_cast<std::size_t>(index) >= shape.tuple.size()) {
        scan_.fail(at, fmt::format("{} has no tuple element {}", operand_name, index));
      }
      result.tuple_index = static_cast<std::int32_t>(index);
    }
    operands_.push_back(result);
  }

  void attributes() {
    attributes_.clear();
    while (true) {
      scan_.skip_space();
      if (*scan_.p != ',') return;
      ++scan_.p;
      scan_.skip_space();
      Attribute attribute;
      const char* const at = scan_.p;
      attribute.position = scan_.position(at);
      attribute.key = scan_.identifier();
      if (attribute.key.empty()) scan_.fail_here("expected an attribute (`key=value`)");
      scan_.expect('=', "'=' after the attribute's name");
      scan_.skip_space();
      attribute.value = value();
      attributes_.push_back(attribute);
    }
  }

  /// Raw text up to the next comma, blank or closing bracket outside of brackets and strings.
  std::string_view value() {
    const char* const start = scan_.p;
    if (std::strncmp(start, "mesh[", 5) == 0) {
      mesh_value();
      return {start, static_cast<std::size_t>(scan_.p - start)};
    }
    while (true) {
      switch (*scan_.p) {
        case '{':
        case '[':
        case '(':
          scan_.skip_balanced();
          continue;
        case '"':
          scan_.skip_string();
          continue;
        case '\0':
          if (scan_.at_end() && scan_.p != start) break;
          scan_.fail_here("expected a value after '='");
        case ',':
        case '}':
        case ')':
        case ']':
        case ' ':
        case '\n':
        case '\t':
        case '\r':
          break;
        default:
          ++scan_.p;
          continue;
      }
      break;
    }
    if (scan_.p == start) scan_.fail_here("expected a value after '='");
    return {start, static_cast<std::size_t>(scan_.p - start)};
  }

  /// `mesh['a'=2,'b'=4], device_ids=(..) {'a'}`: the one value with blanks and a comma of its own.
  void mesh_value() {
    scan_.p += 4;
    scan_.skip_balanced();
    scan_.skip_space();
    const char* const after_mesh = scan_.p;
    if (scan_.accept(',')) {
      scan_.skip_space();
      if (std::strncmp(scan_.p, "device_ids=(", 12) != 0) {
        scan_.p = after_mesh;
        return;
      }
      scan_.p += 11;
      scan_.skip_balanced();
      scan_.skip_space();
    }
    if (*scan_.p != '{') scan_.fail_here("expected the grouped axes in braces after the mesh");
    scan_.skip_balanced();
  }

  /// Notes the computations an instruction calls; checks its sharding on the way.
  void calls(Instruction& result) {
    called_.clear();
    for (const Attribute& attribute : attributes_) {
      const int rank = call_rank(attribute.key);
      if (rank >= 0) called_names(attribute, rank);
      if (attribute.key == "sharding") check_sharding(scan_, attribute, *result.shape);
    }
    if (called_.empty()) return;
    std::sort(called_.begin(), called_.end(), [](const CalledName& a, const CalledName& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.name.data() < b.name.data();  // else as written
    });
    const std::vector<ComputationId> empty(called_.size());
    const std::span<ComputationId> slots = storage_->arena.copy(empty);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      calls_in_computation_.push_back({&slots[i], called_[i].name});
    }
    result.called = slots;
  }

  /// `%name` or `{%a, %b}`.
  void called_names(const Attribute& attribute, int rank) {
    const char* at = attribute.value.data();
    const char* const end = at + attribute.value.size();
    const bool braces = *at == '{';
    if (braces) ++at;
    while (at < end) {
      while (Scanner::is_space(*at) || *at == ',') ++at;
      if (braces && at == end - 1) return;
      const char* const start = at;
      if (*at == '%') ++at;
      const char* const word = at;
      while (at < end && Scanner::is_identifier(*at)) ++at;
      if (at == word) scan_.fail(start, fmt::format("expected a computation's name in {}", attribute.key));
      called_.push_back({rank, {word, static_cast<std::size_t>(at - word)}});
      if (!braces && at != end) scan_.fail(at, fmt::format("unexpected text in {}", attribute.key));
    }
  }

  void resolve_calls() {
    for (const PendingCall& call : calls_) {
      *call.slot = ComputationId(computations_.find(call.name));
      if (!call.slot->valid() && !program_.truncated) {
        scan_.fail(call.name.data(), fmt::format("no computation is called {}", call.name));
      }
    }
    if (program_.truncated) drop_unknown_calls();
    for (const Computation& computation : program_.computations) {
      for (const Instruction& instruction : computation.instructions) check_call(instruction);
    }
  }

  /// In a truncated text a callee may be missing: such a call is left out.
  void drop_unknown_calls() {
    for (Computation& computation : program_.computations) {
      for (Instruction& instruction : computation.instructions) {
        std::vector<ComputationId> known;
        for (const ComputationId id : instruction.called) {
          if (id.valid()) known.push_back(id);
        }
        if (known.size() != instruction.called.size()) instruction.called = storage_->arena.copy(known);
      }
    }
  }

  void check_call(const Instruction& instruction) {
    const std::string_view opcode = instruction.opcode;
    const bool passes_operands = opcode == "fusion" || opcode == "call" || opcode == "while" ||
                                 opcode == "async-start" || opcode == "map";
    if (!passes_operands) return;
    if (instruction.called.size() != (opcode == "while" ? 2u : 1u)) {
      if (program_.truncated || (opcode == "async-start" && !instruction.called.empty())) return;
      scan_.fail(instruction.opcode.data(), opcode == "while"
                                                ? "while needs condition=.. and body=.."
                                                : fmt::format("{} needs the computation it calls", opcode));
    }
    for (const ComputationId id : instruction.called) {
      const std::size_t wanted = parameters_[id.at()];
      if (program_.truncated && id.at() + 1 == parameters_.size()) continue;  // it may be cut
      if (wanted == instruction.operands.size()) continue;
      scan_.fail(opcode.data(),
                 fmt::format("{} passes {} operands, but {} has {} parameters", opcode,
                             instruction.operands.size(), program_.computation(id).name, wanted));
    }
  }

  void choose_entry() {
    if (program_.entry.valid()) return;
    if (!program_.truncated) {  // a single computation without the word ENTRY
      program_.entry = ComputationId(0);
      program_.computations[0].entry = true;
      return;
    }
    program_.warnings.push_back(
        "the text ends before the ENTRY computation: executions count each computation that nothing calls as "
        "run once");
  }

  struct CalledName {
    int rank;
    std::string_view name;
  };

  Program program_;
  std::shared_ptr<Storage> storage_;
  Scanner scan_;
  bool counts_given_ = false;
  // The computation being read.
  Computation current_;
  const char* current_at_ = nullptr;
  bool open_ = false;
  std::vector<Instruction> instructions_;
  NameTable names_;
  std::size_t parameter_count_ = 0;
  std::vector<PendingCall> calls_in_computation_;
  // The instruction being read.
  std::vector<Operand> operands_;
  std::vector<Attribute> attributes_;
  std::vector<CalledName> called_;
  // The module.
  NameTable computations_;
  std::vector<std::size_t> parameters_;
  std::vector<PendingCall> calls_;
};

}  // namespace

Program read_hlo(std::string text, std::string file) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    user_error("{}: a text of more than 4 GiB is not read", file);
  }
  return HloReader(std::make_shared<Storage>(std::move(text)), std::move(file)).read();
}

}  // namespace aoizora::ir
