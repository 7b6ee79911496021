#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

/// Storage that only grows and is freed at once: what a Program's spans point into.
namespace aoizora::ir {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A copy of `values` that lives as long as the arena.
  template <typename T>
  std::span<T> copy(std::span<const T> values) {
    static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);
    if (values.empty()) return {};
    T* const place = static_cast<T*>(allocate(values.size_bytes(), alignof(T)));
    std::uninitialized_copy(values.begin(), values.end(), place);
    return {place, values.size()};
  }
  template <typename T>
  std::span<T> copy(const std::vector<T>& values) {
    return copy(std::span<const T>(values));
  }

  std::size_t bytes() const { return total_; }

 private:
  static constexpr std::size_t kFirstBlock = std::size_t{1} << 12;
  static constexpr std::size_t kLargestBlock = std::size_t{1} << 18;

  void* allocate(std::size_t bytes, std::size_t alignment) {
    const std::size_t padding = (alignment - used_ % alignment) % alignment;
    if (blocks_.empty() || used_ + padding + bytes > capacity_) {
      const std::size_t block = std::clamp(2 * capacity_, kFirstBlock, kLargestBlock);
      capacity_ = std::max(block, bytes);
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(capacity_));
      total_ += capacity_;
      used_ = bytes;
      return blocks_.back().get();
    }
    std::byte* const place = blocks_.back().get() + used_ + padding;
    used_ += padding + bytes;
    return place;
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::size_t used_ = 0;
  std::size_t capacity_ = 0;
  std::size_t total_ = 0;
};

}  // namespace aoizora::ir
