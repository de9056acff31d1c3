#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define KVIK_EVERYWHERE __host__ __device__
#else
#define KVIK_EVERYWHERE
#endif

// Functions of doubles by IEEE's basic operations alone, each rounded for itself: the same bits on
// every processor and every device, which those of a C library are not. For the few numbers of a
// row that decide or gate: experts, states.
namespace kvik {

// 2^n for −1022 ≤ n ≤ 1023.
KVIK_EVERYWHERE inline double exact_power_of_2(int n) {
  const uint64_t bits = static_cast<uint64_t>(n + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof(power));
  return power;
}

// e^x, off by about one unit in the last place: x = n ln 2 + r, and the series of e^r.
KVIK_EVERYWHERE inline double exact_exp(double x) {
  if (!(x > -746.0)) return x <= -746.0 ? 0.0 : x;  // a NaN stays one
  if (x > 710.0) x = 710.0;                         // infinite all the same
  constexpr double kRounder = 0x1.8p+52;
  const double n = (x * 0x1.71547652b82fep+0 + kRounder) - kRounder;
  // The upper part of ln 2 has 32 bits: times n it is exact.
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
  // In two steps: 2^n alone may be no number, where the product is one.
  const int whole = static_cast<int>(n);
  const int half = whole / 2;
  return value * exact_power_of_2(half) * exact_power_of_2(whole - half);
}

// 1 / (1 + e^−x)
KVIK_EVERYWHERE inline double exact_sigmoid(double x) { return 1.0 / (1.0 + exact_exp(-x)); }

// ln(1 + e^x) without overflow: ln(1 + u) for u = e^−|x| is twice the area tangent of u / (2 + u).
KVIK_EVERYWHERE inline double exact_softplus(double x) {
  const double u = exact_exp(x < 0.0 ? x : -x);
  const double s = u / (2.0 + u);
  const double square = s * s;
  double q = 1.0 / 35.0;
  for (int odd = 33; odd > 1; odd -= 2) q = q * square + 1.0 / odd;
  const double above = 2.0 * (s + s * square * q);
  return x > 0.0 ? x + above : above;
}

}  // namespace kvik
