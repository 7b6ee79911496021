#pragma once

#include <memory>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/step_program.h"

namespace aoizora::simulate {

/// Lower bound of both replay modes (the proof is in docs/replay.md). Two facts hold for every replay:
///   A  a group is through no earlier than its last member came plus what the group needs alone (N4's bound);
///   B  the last group of a collective is through no earlier than the first began plus what the busiest link
///      needs for the bytes of all groups.
/// A gives each device a time. B gives it to the members of some group, whose is not known; when a later
/// collective's groups each meet all groups of that one, all of them have waited for it.
/// Everything is max and plus of earlier times, so a loop's later iterations cost at least what the second
/// one added to the first.
class Floor {
 public:
  Floor(const StepProgram& program, const Workload& workload, const network::Model& model);
  ~Floor();
  /// Thread-safe: each call takes a workspace, which remembers groups by the chips they lie on.
  Micros of(const topology::Placement& placement) const;

 private:
  struct Structure {
    std::vector<network::Collective> parts;          // each group or pair by itself, of kUnitBytes
    std::vector<std::vector<std::int32_t>> members;  // per part
    std::vector<bool> meets_all;  // per structure: each part of this meets each part of that
  };
  struct Step {
    const Action* action = nullptr;
    bool local = false;  // kDone, kDmaDone: begun in the same run of the same block; else not counted
  };
  struct Workspace;
  class Walk;

  void add_structures(const Workload& workload);
  void add_steps();

  const StepProgram& program_;
  network::Model model_;
  std::vector<Structure> structures_;
  std::vector<std::size_t> structure_of_;  // per collective
  std::vector<double> scale_;              // per collective: bytes over kUnitBytes
  std::vector<Step> steps_;                // per action
  std::size_t devices_ = 0;
  struct Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace aoizora::simulate
