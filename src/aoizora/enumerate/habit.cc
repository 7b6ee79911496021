#include "aoizora/enumerate/habit.h"

namespace aoizora::enumerate {

std::vector<Habit> habits(std::int64_t chips) {
  std::vector<Habit> list = {
      {"maxdiffusion_default", "all chips on the sequence", 1, chips, 1, "all_gather_kv"},
      {"ulysses", "all chips on the sequence, all-to-all", 1, chips, 1, "ulysses"},
      {"ring", "all chips on the sequence, ring attention", 1, chips, 1, "ring"},
      {"megatron_tp", "all chips on heads and MLP", 1, 1, chips, "head_parallel"},
  };
  if (chips % 2 == 0) {
    list.push_back({"cfg_parallel", "guidance halves apart, the rest on the sequence", 2, chips / 2, 1,
                    "all_gather_kv"});
    list.push_back(
        {"cfg_tensor", "guidance halves apart, the rest on heads and MLP", 2, 1, chips / 2, "head_parallel"});
  }
  return list;
}

bool is_habit(const Candidate& candidate, const Habit& habit) {
  std::int64_t chips = 1;
  for (const auto size : candidate.mesh.shape) chips *= size;
  const bool same_mesh =
      candidate.axis_size("data") == habit.data && candidate.axis_size("context") == habit.context &&
      candidate.axis_size("tensor") == habit.tensor && chips == habit.data * habit.context * habit.tensor;
  if (!same_mesh) return false;
  const bool weights_whole = candidate.ways("embed") == 1;
  return weights_whole && (habit.context == 1 || candidate.attention == habit.attention);
}

}  // namespace aoizora::enumerate
