#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

/// A hash table from names (views into the text) to dense numbers, made to be emptied once per computation.
namespace aoizora::ir {

/// Mixes eight bytes at a time. Not for hostile keys on its own: NameTable bounds its probes by growing.
inline std::uint64_t hash_name(std::string_view name) {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;  // 2^64 / golden ratio
  std::uint64_t hash = name.size() * kMultiplier;
  const char* at = name.data();
  std::size_t left = name.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  };
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, left);
    mix(word);
  }
  return hash;
}

class NameTable {
 public:
  NameTable() : slots_(64) {}

  /// O(1): slots of an earlier generation count as empty.
  void clear() {
    ++generation_;
    used_ = 0;
  }
  /// The number stored for `name`, or -1.
  std::int32_t find(std::string_view name) const {
    const std::uint64_t hash = hash_name(name);
    for (std::size_t i = hash & mask();; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (slot.generation != generation_) return -1;
      if (slot.tag == static_cast<std::uint32_t>(hash >> 32) && slot.name == name) return slot.value;
    }
  }
  /// Stores `value` unless the name is there; returns the number stored (its own or the earlier one).
  std::int32_t insert(std::string_view name, std::int32_t value) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    const std::uint64_t hash = hash_name(name);
    for (std::size_t i = hash & mask();; i = (i + 1) & mask()) {
      Slot& slot = slots_[i];
      if (slot.generation != generation_) {
        slot = {name, static_cast<std::uint32_t>(hash >> 32), generation_, value};
        ++used_;
        return value;
      }
      if (slot.tag == static_cast<std::uint32_t>(hash >> 32) && slot.name == name) return slot.value;
    }
  }
  std::size_t size() const { return used_; }

 private:
  struct Slot {
    std::string_view name;
    std::uint32_t tag = 0;
    std::uint32_t generation = 0;
    std::int32_t value = -1;
  };

  std::size_t mask() const { return slots_.size() - 1; }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (const Slot& slot : old) {
      if (slot.generation == generation_) insert(slot.name, slot.value);
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::uint32_t generation_ = 1;
};

}  // namespace aoizora::ir
