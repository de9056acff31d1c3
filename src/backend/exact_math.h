#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define KVIK_HOST_DEVICE __host__ __device__
#else
// Kernel files that are compiled for several instruction sets include these functions. They are
// inlined because the linker keeps only one copy of a function for the whole program.
#define KVIK_HOST_DEVICE [[gnu::always_inline]]
#endif

// Functions of doubles that use only IEEE's basic operations, each rounded separately. They give
// the same bits on every processor and device, unlike the functions of a C library. They compute
// the few numbers of a row that need this: the probabilities of experts, and the gates of recurrent
// states. They have no branches, so that compilers can vectorize them; bit masks select between
// values.
namespace kvik {

// Return the bits of x, and the double with the given bits.
KVIK_HOST_DEVICE inline uint64_t exact_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
KVIK_HOST_DEVICE inline double exact_double(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// Returns 2^n for −1022 ≤ n ≤ 1023.
KVIK_HOST_DEVICE inline double exact_power_of_2(int64_t n) {
  return exact_double(static_cast<uint64_t>(n + 1023) << 52);
}

// Returns x clamped to ±limit, limit > 0. A NaN stays a NaN.
KVIK_HOST_DEVICE inline double exact_clamped(double x, double limit) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  constexpr uint64_t kInfinity = uint64_t{0x7ff} << 52;
  const uint64_t most = exact_bits(limit);
  const uint64_t size = exact_bits(x) & ~kSign;
  const uint64_t limited = size > most ? (size > kInfinity ? size : most) : size;
  return exact_double(limited | (exact_bits(x) & kSign));
}

// Returns e^x with an error of about one unit in the last place. Splits x into n ln 2 + r and
// evaluates the Taylor series of e^r.
KVIK_HOST_DEVICE inline double exact_exp(double x) {
  x = exact_clamped(x, 746.0);  // beyond ±746 the result is 0 or infinity anyway
  constexpr double kRounder = 0x1.8p+52;
  const double rounded = x * 0x1.71547652b82fep+0 + kRounder;
  const double n = rounded - kRounder;
  // The upper part of ln 2 has 32 bits, so its product with n is exact.
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double q = 1.0 / 6227020800.0;
  q = q * r + 1.0 / 479001600.0;
  q = q * r + 1.0 / 39916800.0;
  q = q * r + 1.0 / 3628800.0;
  q = q * r + 1.0 / 362880.0;
  q = q * r + 1.0 / 40320.0;
  q = q * r + 1.0 / 5040.0;
  q = q * r + 1.0 / 720.0;
  q = q * r + 1.0 / 120.0;
  q = q * r + 1.0 / 24.0;
  q = q * r + 1.0 / 6.0;
  q = q * r + 0.5;
  const double value = 1.0 + (r + r * r * q);
  // Multiplies by 2^n in two steps, because 2^n alone may overflow although the result does not.
  const auto whole = static_cast<int64_t>(exact_bits(rounded) - exact_bits(kRounder));
  const int64_t half = whole >> 1;
  return value * exact_power_of_2(half) * exact_power_of_2(whole - half);
}

// Returns 1 / (1 + e^−x).
KVIK_HOST_DEVICE inline double exact_sigmoid(double x) { return 1.0 / (1.0 + exact_exp(-x)); }

// Returns ln(1 + e^x) without overflow. For u = e^−|x|, ln(1 + u) is twice the inverse hyperbolic
// tangent of u / (2 + u).
KVIK_HOST_DEVICE inline double exact_softplus(double x) {
  const double u = exact_exp(-fabs(x));
  const double s = u / (2.0 + u);
  const double square = s * s;
  double q = 1.0 / 35.0;
  q = q * square + 1.0 / 33.0;
  q = q * square + 1.0 / 31.0;
  q = q * square + 1.0 / 29.0;
  q = q * square + 1.0 / 27.0;
  q = q * square + 1.0 / 25.0;
  q = q * square + 1.0 / 23.0;
  q = q * square + 1.0 / 21.0;
  q = q * square + 1.0 / 19.0;
  q = q * square + 1.0 / 17.0;
  q = q * square + 1.0 / 15.0;
  q = q * square + 1.0 / 13.0;
  q = q * square + 1.0 / 11.0;
  q = q * square + 1.0 / 9.0;
  q = q * square + 1.0 / 7.0;
  q = q * square + 1.0 / 5.0;
  q = q * square + 1.0 / 3.0;
  const auto bits = static_cast<int64_t>(exact_bits(x));
  const double positive_part = exact_double(static_cast<uint64_t>(bits & ~(bits >> 63)));
  return positive_part + 2.0 * (s + s * square * q);
}

}  // namespace kvik
