#include <algorithm>
#include <limits>
#include <memory>

#include "aoizora/ir/mlir_scopes.h"
#include "aoizora/ir/mlir_text.h"
#include "aoizora/ir/stablehlo_collectives.h"
#include "aoizora/ir/storage.h"

/// StableHLO and Shardy in MLIR's generic form, as `get_asm(print_generic_op_form=True)` prints it. A
/// function and each region of an operation become a computation; block arguments become `parameter`
/// instructions, and a value of an enclosing region that is used inside becomes a `parameter` with argument
/// `captured`.
namespace aoizora::ir {
namespace {

struct PendingCall {
  ComputationId* slot;
  std::string_view callee;
  const char* at;
};

class StableHloReader {
 public:
  StableHloReader(std::shared_ptr<Storage> storage, std::string file)
      : storage_(std::move(storage)), scan_(storage_->text, program_.file, CommentStyle::kMlir) {
    program_.file = std::move(file);
    program_.format = Program::Format::kStableHlo;
    program_.scheduled = false;
  }

  Program read() {
    try {
      top_level();
    } catch (const Truncated& cut) {
      program_.truncated = scan_.position(cut.at);
      while (scopes_.depth() > 0) scopes_.close(true);
    }
    if (program_.computations.empty()) scan_.fail(scan_.begin(), "no function in the text");
    resolve_calls();
    choose_entry();
    device_count();
    count_executions(program_);
    find_stablehlo_collectives(program_, meshes_, argument_attributes_, counts_known_);
    program_.storage = storage_;
    return std::move(program_);
  }

 private:
  void top_level() {
    while (true) {
      scan_.skip_space();
      if (scan_.at_end()) return;
      if (*scan_.p == '#' || *scan_.p == '!') {
        alias();
      } else if (*scan_.p == '{') {
        skip_mlir_brackets(scan_);  // `{-# dialect_resources .. #-}`
      } else {
        operation();
      }
    }
  }

  /// `#name = value` and `!name = type`, up to the end of the line.
  void alias() {
    const char* const start = scan_.p++;
    while (Scanner::is_identifier(*scan_.p)) ++scan_.p;
    const std::string_view name(start, static_cast<std::size_t>(scan_.p - start));
    scan_.expect('=', "'=' after an alias");
    scan_.skip_space();
    const char* const value = scan_.p;
    while (*scan_.p != '\n' && !scan_.at_end()) {
      const char c = *scan_.p;
      if (c == '(' || c == '[' || c == '{' || c == '<') {
        skip_mlir_brackets(scan_);
      } else if (c == '"') {
        scan_.skip_string();
      } else {
        ++scan_.p;
      }
    }
    aliases_[name] = std::string_view(value, static_cast<std::size_t>(scan_.p - value));
  }

  // ---- Operations ----

  void operation() {
    Instruction op;
    std::int64_t results = 0;
    const char* const at = scan_.p;
    op.position = scan_.position(at);
    if (*scan_.p == '%') {
      op.name = value_name();
      results = 1;
      if (*scan_.p == ':') {
        ++scan_.p;
        results = scan_.integer("the number of results");
        if (results < 1 || results > (1 << 20)) scan_.fail(at, "the number of results is out of range");
      }
      scan_.expect('=', "'=' after the results");
      scan_.skip_space();
    }
    if (*scan_.p != '"') {
      scan_.fail_here("expected an operation in MLIR's generic form (`\"dialect.op\"(..)`)");
    }
    const char* const name = scan_.p;
    scan_.skip_string();
    op.opcode = unquoted({name, static_cast<std::size_t>(scan_.p - name)});
    if (scopes_.depth() == 0) return module_operation(op);
    body_operation(op, results, at);
  }

  /// Operations outside functions: the module itself, meshes, functions.
  void module_operation(const Instruction& op) {
    scan_.expect('(', "'(' after the operation");
    scan_.expect(')', "')': an operation of the module takes no operands");
    std::vector<Attribute> attributes = properties();
    if (op.opcode == "sdy.mesh") mesh(attributes, op.position);
    if (op.opcode == "builtin.module" && program_.module.empty()) {
      program_.module = unquoted(field(attributes, "sym_name"));
    }
    scan_.skip_space();
    if (*scan_.p == '(') module_regions(op, attributes);
    const std::vector<Attribute> more = dictionary();
    if (op.opcode == "builtin.module") {
      program_.module_attributes.insert(program_.module_attributes.end(), more.begin(), more.end());
    }
    function_type(nullptr);
    location();
  }

  void module_regions(const Instruction& op, const std::vector<Attribute>& attributes) {
    ++scan_.p;
    if (op.opcode == "func.func") {
      if (!scan_.accept('{')) scan_.fail_here("expected the function's body in braces");
      if (!scan_.accept('}')) function(op, attributes);  // empty: a declaration
    } else {
      if (++module_depth_ > kMaxNesting) scan_.fail(scan_.p, "modules nest too deeply");
      if (!scan_.accept('{')) scan_.fail_here("expected a region in braces");
      while (!scan_.accept('}')) {
        if (scan_.at_end()) throw Truncated{scan_.p};
        if (*scan_.p == '^') block_label(nullptr);
        scan_.skip_space();
        if (*scan_.p != '}') operation();
      }
      --module_depth_;
    }
    scan_.expect(')', "')' after the region");
  }

  void function(const Instruction& op, const std::vector<Attribute>& attributes) {
    const std::string_view name = unquoted(field(attributes, "sym_name"));
    if (name.empty()) throw UserError(program_.file, op.position, "a function needs sym_name");
    const auto id = static_cast<std::int32_t>(program_.computations.size());
    if (functions_.insert(name, id) != id) {
      throw UserError(program_.file, op.position, fmt::format("a second function is called {}", name));
    }
    if (field(attributes, "sym_visibility") != "\"private\"" && !first_public_.valid()) {
      first_public_ = ComputationId(id);
    }
    scopes_.open(name, true);
    argument_attributes_[id] = field(attributes, "arg_attrs");
    region_body();
  }

  void mesh(const std::vector<Attribute>& attributes, Position at) {
    const std::string_view text = field(attributes, "mesh");
    const std::string_view name = unquoted(field(attributes, "sym_name"));
    DeviceMesh parsed = parse_sdy_mesh(resolve_alias(text), program_.file, at);
    if (!meshes_.emplace(name, std::move(parsed)).second) {
      throw UserError(program_.file, at, fmt::format("a second mesh is called {}", name));
    }
  }

  std::string_view resolve_alias(std::string_view text) const {
    const auto found = aliases_.find(text);
    return found == aliases_.end() ? text : found->second;
  }

  void body_operation(Instruction& op, std::int64_t results, const char* at) {
    std::vector<Operand> operands = operand_list();
    scan_.skip_space();
    if (*scan_.p == '[') skip_mlir_brackets(scan_);  // successors
    std::vector<Attribute> attributes = properties();
    for (Attribute& attribute : attributes) attribute.value = resolve_alias(attribute.value);
    op.operands = storage_->arena.copy(operands);
    std::vector<ComputationId> called;
    scan_.skip_space();
    if (*scan_.p == '(') {
      op.attributes = storage_->arena.copy(attributes);
      called = regions(op);
    }
    const std::vector<Attribute> more = dictionary();
    attributes.insert(attributes.end(), more.begin(), more.end());
    op.attributes = storage_->arena.copy(attributes);
    op.shape = function_type(&operands);
    check_results(*op.shape, results, at);
    location();
    if (scan_.in_last_line()) throw Truncated{at};  // it may go on
    calls(op, called);
    scopes_.append(scopes_.innermost(), op);
  }

  void check_results(const Shape& shape, std::int64_t results, const char* at) {
    const auto count = results_in_type_;
    if (results == 0 ? false : count != results) {
      scan_.fail(at, fmt::format("{} results, but the type has {}", results, count));
    }
    if (results == 1 && &shape == scopes_.empty_tuple())
      scan_.fail(at, "the operation has no result to name");
  }

  /// Calls by symbol, beside the regions.
  void calls(Instruction& op, std::vector<ComputationId>& called) {
    std::vector<std::pair<std::string_view, const char*>> names;
    for (const Attribute& attribute : op.attributes) {
      if (attribute.key == "callee" || attribute.key == "decomposition") {
        if (const auto name = symbol_name(attribute.value); !name.empty()) {
          names.emplace_back(name, attribute.value.data());
        }
      } else if (attribute.key == "called_computations") {
        std::string_view list = attribute.value;
        for (std::size_t at = list.find('@'); at != std::string_view::npos; at = list.find('@', at + 1)) {
          const std::size_t end = list.find_first_of(",] ", at);
          if (end != std::string_view::npos)
            names.emplace_back(symbol_name(list.substr(at, end - at)), list.data() + at);
        }
      }
    }
    if (!names.empty() && op.opcode.ends_with("call")) op.argument = names.front().first;
    const std::size_t regions = called.size();
    called.resize(regions + names.size());
    const std::span<ComputationId> slots = storage_->arena.copy(called);
    for (std::size_t i = 0; i < names.size(); ++i) {
      calls_.push_back({&slots[regions + i], names[i].first, names[i].second});
    }
    op.called = slots;
  }

  /// `({..}, {..})` behind the operands.
  std::vector<ComputationId> regions(const Instruction& op) {
    ++scan_.p;
    Scope& outer = scopes_.innermost();
    outer.pending = op;
    outer.pending_called.clear();
    outer.has_pending = true;
    std::vector<ComputationId> called;
    do {
      if (!scan_.accept('{')) scan_.fail_here("expected a region in braces");
      const std::string_view parent = program_.computations[outer.id.at()].name;
      // Copying the parent's name at each level would make names grow with the square of the depth.
      const std::string& name = storage_->strings.emplace_back(
          fmt::format("{}.{}.{}.{}", parent.substr(0, 60), op.opcode, op.name, called.size()));
      called.push_back(scopes_.open(name, false));
      outer.pending_called = called;
      region_body();
    } while (scan_.accept(','));
    scan_.expect(')', "',' or ')' after a region");
    outer.has_pending = false;
    return called;
  }

  /// Blocks up to the closing brace; the scope is open, the brace taken.
  void region_body() {
    const std::size_t mine = scopes_.depth();
    while (true) {
      scan_.skip_space();
      if (scan_.at_end()) throw Truncated{scan_.p};
      if (*scan_.p == '}') break;
      if (*scan_.p == '^') {
        block_label(&scopes_.innermost());
      } else {
        operation();
      }
    }
    AOIZORA_CHECK(scopes_.depth() == mine, "a region left its scope open");
    ++scan_.p;
    scopes_.close(false);
  }

  /// `^bb0(%arg0: type, ..):`
  void block_label(Scope* into) {
    ++scan_.p;
    scan_.identifier();
    if (scan_.accept('(')) {
      if (!scan_.accept(')')) {
        do {
          scan_.skip_space();
          block_argument(into);
        } while (scan_.accept(','));
        scan_.expect(')', "',' or ')' after a block argument");
      }
    }
    scan_.expect(':', "':' after a block's label");
  }

  void block_argument(Scope* into) {
    Instruction argument;
    argument.position = scan_.position(scan_.p);
    if (*scan_.p != '%') scan_.fail_here("expected a block argument");
    argument.name = value_name();
    argument.opcode = "parameter";
    scan_.expect(':', "':' and the argument's type");
    argument.shape = type();
    location();
    if (into == nullptr) return;
    argument.argument = storage_->strings.emplace_back(std::to_string(into->arguments++));
    scopes_.append(*into, argument);
  }

  /// `%name`, without the percent sign and without `#i` or `:n`.
  std::string_view value_name() {
    ++scan_.p;
    const std::string_view name = scan_.identifier();
    if (name.empty()) scan_.fail_here("expected a value's name");
    return name;
  }

  std::vector<Operand> operand_list() {
    std::vector<Operand> operands;
    scan_.expect('(', "'(' after the operation");
    if (scan_.accept(')')) return operands;
    do {
      scan_.skip_space();
      const char* const at = scan_.p;
      if (*at != '%') scan_.fail_here("expected an operand `%name`");
      const std::string_view name = value_name();
      Operand operand;
      operand.instruction = scopes_.find(name, at);
      if (*scan_.p == '#') {
        ++scan_.p;
        const std::int64_t index = scan_.integer("a result's number");
        const Shape& shape = *scopes_.innermost().instructions[operand.instruction.at()].shape;
        if (index < 0 || !shape.is_tuple() || static_cast<std::size_t>(index) >= shape.tuple.size()) {
          scan_.fail(at, fmt::format("%{} has no result {}", name, index));
        }
        operand.tuple_index = static_cast<std::int32_t>(index);
      }
      operands.push_back(operand);
    } while (scan_.accept(','));
    scan_.expect(')', "',' or ')' after an operand");
    return operands;
  }

  std::vector<Attribute> properties() {
    scan_.skip_space();
    if (scan_.p[0] != '<' || scan_.p[1] != '{') return {};
    scan_.p += 2;
    std::vector<Attribute> attributes = mlir_fields(scan_, '}');
    ++scan_.p;
    scan_.expect('>', "'>' after the properties");
    return attributes;
  }

  std::vector<Attribute> dictionary() {
    scan_.skip_space();
    if (*scan_.p != '{') return {};
    ++scan_.p;
    std::vector<Attribute> attributes = mlir_fields(scan_, '}');
    ++scan_.p;
    return attributes;
  }

  const Shape* type() {
    scan_.skip_space();
    const char* const start = scan_.p;
    skip_mlir_type(scan_);
    const char* const end = scan_.p;
    const std::string_view text(start, static_cast<std::size_t>(end - start));
    const Shape* const shape = storage_->shapes.intern(text, [&] {
      const std::string_view known = resolve_alias(text);
      if (known.data() == text.data()) {
        scan_.p = start;
        return parse_mlir_type(scan_);
      }
      scan_.p = known.data();
      return parse_mlir_type(scan_);
    });
    scan_.p = end;
    return shape;
  }

  /// `: (types) -> types`; the operands' count is checked where they are given.
  const Shape* function_type(const std::vector<Operand>* operands) {
    scan_.expect(':', "':' and the operation's type");
    scan_.expect('(', "'(' of the operand types");
    std::size_t count = 0;
    const char* const at = scan_.p - 1;
    if (!scan_.accept(')')) {
      do {
        skip_mlir_type(scan_);
        ++count;
      } while (scan_.accept(','));
      scan_.expect(')', "',' or ')' after an operand type");
    }
    if (operands != nullptr && operands->size() != count) {
      scan_.fail(at, fmt::format("{} operands, but {} operand types", operands->size(), count));
    }
    scan_.expect_arrow("'->' before the result types");
    scan_.skip_space();
    return result_types();
  }

  const Shape* result_types() {
    if (*scan_.p != '(') {
      results_in_type_ = 1;
      return type();
    }
    const char* const start = scan_.p++;
    if (scan_.accept(')')) {
      results_in_type_ = 0;
      return scopes_.empty_tuple();
    }
    std::vector<const Shape*> parts;
    do {
      parts.push_back(type());
    } while (scan_.accept(','));
    scan_.expect(')', "',' or ')' after a result type");
    results_in_type_ = static_cast<std::int64_t>(parts.size());
    const std::string_view text(start, static_cast<std::size_t>(scan_.p - start));
    const Shape* const shape = storage_->shapes.intern(text, [&] {
      Shape tuple;
      tuple.element = ElementType::kTuple;
      std::int64_t bytes = 0;
      for (const Shape* part : parts) {
        if (__builtin_add_overflow(bytes, part->byte_size(), &bytes)) {
          scan_.fail(start, "the results have more than 2^63 bytes");
        }
        tuple.tuple.push_back(*part);
      }
      return tuple;
    });
    return shape;
  }

  void location() {
    scan_.skip_space();
    if (std::string_view(
            scan_.p, std::min<std::size_t>(4, static_cast<std::size_t>(scan_.end() - scan_.p))) != "loc(") {
      return;
    }
    scan_.p += 3;
    skip_mlir_brackets(scan_);
  }

  // ---- After reading ----

  void resolve_calls() {
    for (const PendingCall& call : calls_) {
      *call.slot = ComputationId(functions_.find(call.callee));
      if (!call.slot->valid() && !program_.truncated) {
        scan_.fail(call.at, fmt::format("no function is called @{}", call.callee));
      }
    }
    for (Computation& computation : program_.computations) {
      for (Instruction& op : computation.instructions) {
        if (std::all_of(op.called.begin(), op.called.end(), [](ComputationId id) { return id.valid(); }))
          continue;
        std::vector<ComputationId> known;
        std::copy_if(op.called.begin(), op.called.end(), std::back_inserter(known),
                     [](ComputationId id) { return id.valid(); });
        op.called = storage_->arena.copy(known);
      }
    }
  }

  void choose_entry() {
    program_.entry = ComputationId(functions_.find("main"));
    if (!program_.entry.valid()) program_.entry = first_public_;
    if (!program_.entry.valid()) program_.entry = ComputationId(0);
    program_.computations[program_.entry.at()].entry = true;
  }

  void device_count() {
    for (const Attribute& attribute : program_.module_attributes) {
      std::int64_t* const target = attribute.key == "mhlo.num_partitions" ? &program_.num_partitions
                                   : attribute.key == "mhlo.num_replicas" ? &program_.num_replicas
                                                                          : nullptr;
      if (target == nullptr) continue;
      const std::string number = std::string(attribute.value) + " ";
      Scanner value(number, program_.file);
      *target = value.integer("a number of devices");
      if (*target < 1 || *target > kMaxGroupIds) {
        throw UserError(program_.file, attribute.position,
                        fmt::format("{} must be between 1 and {}", attribute.key, kMaxGroupIds));
      }
      counts_known_ = true;
    }
    if (program_.devices() > kMaxGroupIds) {
      user_error("{}: {} devices are more than {}", program_.file, program_.devices(), kMaxGroupIds);
    }
    if (counts_known_) return;
    for (const auto& [name, mesh] : meshes_) {  // Shardy's meshes span all devices
      program_.num_partitions = std::max(program_.num_partitions, mesh.positions());
      counts_known_ = true;
    }
  }

  Program program_;
  std::shared_ptr<Storage> storage_;
  Scanner scan_;
  std::map<std::string_view, std::string_view, std::less<>> aliases_;
  Meshes meshes_;
  bool counts_known_ = false;
  int module_depth_ = 0;
  Scopes scopes_{program_, *storage_, scan_};
  std::int64_t results_in_type_ = 0;
  NameTable functions_;
  ComputationId first_public_;
  std::map<std::int32_t, std::string_view> argument_attributes_;
  std::vector<PendingCall> calls_;
};

}  // namespace

Program read_stablehlo(std::string text, std::string file) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    user_error("{}: a text of more than 4 GiB is not read", file);
  }
  return StableHloReader(std::make_shared<Storage>(std::move(text)), std::move(file)).read();
}

}  // namespace aoizora::ir
