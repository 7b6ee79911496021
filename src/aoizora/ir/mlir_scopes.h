#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "aoizora/ir/name_table.h"
#include "aoizora/ir/storage.h"

/// The functions and regions that a StableHLO reader is inside of, innermost last.
namespace aoizora::ir {

/// One open function or region, which becomes a computation.
struct Scope {
  ComputationId id;
  std::vector<Instruction> instructions;
  NameTable names;
  std::int32_t arguments = 0;
  bool isolated = false;  // a function: values outside cannot be used
  /// The operation that a region is in the middle of, for a text that ends there.
  Instruction pending;
  std::vector<ComputationId> pending_called;
  bool has_pending = false;
};

class Scopes {
 public:
  Scopes(Program& program, Storage& storage, Scanner& scan)
      : program_(program), storage_(storage), scan_(scan) {}

  std::size_t depth() const { return depth_; }
  Scope& innermost() { return *scopes_[depth_ - 1]; }

  /// Adds a computation and makes it the innermost scope. Fails beyond kMaxNesting.
  ComputationId open(std::string_view name, bool isolated);
  /// Moves the innermost scope's instructions into its computation. `truncated` keeps the operation that it
  /// is in the middle of.
  void close(bool truncated);

  /// Fails when a value of that name is there already.
  InstructionId append(Scope& to, const Instruction& instruction);

  /// The instruction of a value in the innermost scope. A value of an outer region is captured by each
  /// region on the way: a `parameter` of the same name with argument `captured`.
  InstructionId find(std::string_view name, const char* at);

  const Shape* empty_tuple();

 private:
  Program& program_;
  Storage& storage_;
  Scanner& scan_;
  std::vector<std::unique_ptr<Scope>> scopes_;  // reused by depth
  std::size_t depth_ = 0;
  const Shape* empty_tuple_ = nullptr;
};

}  // namespace aoizora::ir
