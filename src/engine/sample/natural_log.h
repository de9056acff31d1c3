#pragma once

#include <bit>
#include <cstdint>

namespace kvik {

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// Returns ln x of a normal positive number, with an error of about one unit in the last place. It
// uses only IEEE's basic operations, each rounded separately, so its bits are the same on every
// processor and C library.
//
// x = 2^n m with m near 1, and ln m = 2 artanh((m − 1) / (m + 1)) by its Taylor series.
inline double natural_log(double x) {
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
  const auto bits = std::bit_cast<uint64_t>(x);
  const auto n = static_cast<int64_t>(bits - kRootOfHalf) >> 52;  // m is at least √½
  const double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(n) << 52));
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int power = 21; power >= 3; power -= 2) series = (series + 1.0 / power) * square;
  return static_cast<double>(n) * kLn2 + (2 * s + 2 * s * series);
}

}  // namespace kvik
