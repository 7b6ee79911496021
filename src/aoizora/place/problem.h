#pragma once

#include <cstdint>
#include <vector>

#include "aoizora/network/model.h"
#include "aoizora/simulate/workload.h"

/// What a placement search needs of a workload, prepared once: which partitions talk in which groups, and
/// when.
namespace aoizora::place {

/// Collectives that differ in bytes only. Their link loads are the same up to a factor (N3 is linear in the
/// bytes), so a placement prices them once.
struct Structure {
  /// Kind and hint (and ragged sizes); no groups.
  network::Collective prototype;
  /// Groups of partitions; of a permute each pair is a group of two, source first.
  std::vector<std::vector<std::int32_t>> groups;
  bool permute = false;
  /// Every partition is in exactly one group; of a permute: in at least one pair (both ends wait for it, N5).
  bool covers = false;
  /// groups_of[p]: the groups partition p is in (one or none; of a permute up to two).
  std::vector<std::vector<std::int32_t>> groups_of;
  /// Bytes times executions of all its collectives in one step: how much the structure matters.
  double volume = 0;
};

/// A collective of the workload: its structure, and the bytes that the structure's unit loads are scaled by.
struct Transfer {
  std::int32_t structure = -1;
  double bytes = 0;
};

/// Collectives in flight together until the last of them (in program order) is waited for. Links must carry
/// all of their bytes between the first start and that wait.
struct Window {
  std::vector<std::int32_t> transfers;
};

/// The step as the scoring walks see it: compute runs merged, loops kept.
struct WalkOp {
  enum class Kind : std::uint8_t { kCompute, kStart, kDone, kSync, kWindow, kLoop, kDmaStart, kDmaDone };
  Kind kind{};
  double micros = 0;         // kCompute, kDmaStart
  std::int32_t index = -1;   // transfer, window, or DMA
  std::int32_t since = -1;   // kWindow: the transfer whose start begins it
  std::int64_t trips = 1;    // kLoop
  std::size_t body_end = 0;  // kLoop: its body is (this, body_end)
};

/// Immutable; shared by all workers. Keeps a reference to the model.
class Problem {
 public:
  /// UserError when a group names a partition that does not exist or one twice.
  Problem(const simulate::Workload& workload, const network::Model& model);

  const network::Model& model() const { return *model_; }
  std::size_t positions() const { return positions_; }
  const std::vector<Structure>& structures() const { return structures_; }
  const std::vector<Transfer>& transfers() const { return transfers_; }
  const std::vector<Window>& windows() const { return windows_; }
  const std::vector<WalkOp>& walk() const { return walk_; }
  std::size_t dmas() const { return dmas_; }
  double compute() const { return compute_; }
  /// Parts of the partitions that no collective of the loops joins (the replicas of a data-parallel step):
  /// they may drift apart for as long as they like, or as the loop lasts. component_of[p], numbered by their
  /// lowest partition. Where collectives outside loops move more than a hundredth of the bytes, they count.
  std::size_t components() const { return components_; }
  const std::vector<std::int32_t>& component_of() const { return component_of_; }
  /// True when groups of the structure have members in several components: a collective that is outside the
  /// loops.
  bool spans(std::size_t structure) const { return spans_[structure]; }
  /// Component of each group of a structure; of one that spans, of its first member.
  std::size_t component_of_group(std::size_t structure, std::size_t group) const {
    return static_cast<std::size_t>(
        component_of_[static_cast<std::size_t>(structures_[structure].groups[group].front())]);
  }
  /// True when, within each component, every group of `a` meets every group of `b`: after both, each device
  /// has waited for all of its component.
  bool couples(std::size_t a, std::size_t b) const { return couples_[a * structures_.size() + b]; }

 private:
  std::int32_t structure_of(const network::Collective& collective);
  void add_block(const simulate::Workload& workload, std::size_t block, std::size_t depth);
  void add_volumes(const simulate::Workload& workload, std::size_t block, double times, std::size_t depth);
  std::vector<bool> joining() const;
  void find_components();
  void find_couplings();

  const network::Model* model_;
  std::size_t positions_;
  std::vector<Structure> structures_;
  std::vector<Transfer> transfers_;
  std::vector<Window> windows_;
  std::vector<WalkOp> walk_;
  std::size_t dmas_ = 0;
  double compute_ = 0;
  std::size_t components_ = 0;
  std::vector<std::int32_t> component_of_;
  std::vector<bool> spans_;
  std::vector<bool> couples_;
};

}  // namespace aoizora::place
