#pragma once

#include <compare>
#include <cstdint>
#include <functional>

/// Strong types: a number that carries its unit or what it counts, so that mixing two does not compile.
namespace aoizora {

/// A quantity in one unit. Same-unit arithmetic only; `.value` where a bare number is meant.
template <typename Unit, typename Rep = double>
struct Quantity {
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}

  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
  /// A ratio has no unit.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
};

/// Time in microseconds, the unit of every duration inside AoiZora.
using Micros = Quantity<struct MicrosTag>;
/// A count of bytes; signed so that differences are safe.
using Bytes = Quantity<struct BytesTag, std::int64_t>;
/// A rate in bytes per microsecond (1 GB/s = 1000 bytes/µs).
using BytesPerMicro = Quantity<struct BytesPerMicroTag>;

constexpr BytesPerMicro gigabytes_per_second(double gbps) { return BytesPerMicro(gbps * 1e3); }
constexpr Micros operator/(Bytes bytes, BytesPerMicro rate) {
  return Micros(static_cast<double>(bytes.value) / rate.value);
}

/// A dense index into one kind of table.
template <typename Tag>
struct Index {
  std::int32_t value = -1;

  constexpr Index() = default;
  constexpr explicit Index(std::int32_t v) : value(v) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t at() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(Index, Index) = default;
};

/// A chip (a device, where a chip has two) of a slice, numbered as Slice::coordinates orders them.
using Chip = Index<struct ChipTag>;
/// A directed link of a slice (N1).
using Link = Index<struct LinkTag>;
/// A position in the logical mesh, row-major: what HLO calls a partition id.
using Partition = Index<struct PartitionTag>;

}  // namespace aoizora

template <typename Tag>
struct std::hash<aoizora::Index<Tag>> {
  std::size_t operator()(aoizora::Index<Tag> index) const noexcept {
    return std::hash<std::int32_t>()(index.value);
  }
};
