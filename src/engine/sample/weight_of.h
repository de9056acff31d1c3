#pragma once

#include <bit>
#include <cstdint>

namespace kvik {

// The parts of weight_of(). Compilers vectorize them in separate loops, but not the lookup of the
// power between them.
//
// x = (k / 32) ln 2 + r, and e^x = 2^(k / 32) · p(r) with a polynomial p of degree 3. Method, table
// and coefficients are those of expf() in Arm's Optimized Routines, and so in glibc.
struct WeightParts {
  double polynomial;  // p(r)
  uint64_t k;         // modulo 2^52
};

inline WeightParts weight_parts(float x) {
  constexpr double kRounder = 0x1.8p+52;
  const int32_t magnitude = std::bit_cast<int32_t>(x) & INT32_MAX;
  const int32_t most = std::bit_cast<int32_t>(150.0f);  // below the magnitude of a NaN
  const float limited = -std::bit_cast<float>(magnitude < most ? magnitude : most);
  const double z = limited * (0x1.71547652b82fep+0 * 32);
  const double rounded = z + kRounder;
  const double r = z - (rounded - kRounder);
  const double high = (0x1.c6af84b912394p-5 / 32 / 32 / 32) * r + 0x1.ebfce50fac4f3p-3 / 32 / 32;
  const double low = (0x1.62e42ff0c52d6p-1 / 32) * r + 1.0;
  return {high * (r * r) + low, std::bit_cast<uint64_t>(rounded)};
}

// The bits of 2^(i / 32), less i · 2^47.
inline constexpr uint64_t kWeightPowers[32] = {
    0x3ff0000000000000, 0x3fefd9b0d3158574, 0x3fefb5586cf9890f, 0x3fef9301d0125b51,
    0x3fef72b83c7d517b, 0x3fef54873168b9aa, 0x3fef387a6e756238, 0x3fef1e9df51fdee1,
    0x3fef06fe0a31b715, 0x3feef1a7373aa9cb, 0x3feedea64c123422, 0x3feece086061892d,
    0x3feebfdad5362a27, 0x3feeb42b569d4f82, 0x3feeab07dd485429, 0x3feea47eb03a5585,
    0x3feea09e667f3bcd, 0x3fee9f75e8ec5f74, 0x3feea11473eb0187, 0x3feea589994cce13,
    0x3feeace5422aa0db, 0x3feeb737b0cdc5e5, 0x3feec49182a3f090, 0x3feed503b23e255d,
    0x3feee89f995ad3ad, 0x3feeff76f2fb5e47, 0x3fef199bdd85529c, 0x3fef3720dcef9069,
    0x3fef5818dcfba487, 0x3fef7c97337b9b5f, 0x3fefa4afa2a490da, 0x3fefd0765b6e4540};

// power: kWeightPowers[k % 32]
inline float weight_of(const WeightParts& parts, uint64_t power) {
  return static_cast<float>(parts.polynomial * std::bit_cast<double>(power + (parts.k << 47)));
}

// Returns e^x for x ≤ 0, with an error of 0.502 ulp; 0 below −104 and for a NaN. It never decreases
// as x increases. It uses only IEEE's basic operations, each rounded separately, so its bits are
// the same on every processor and C library.
inline float weight_of(float x) {
  const WeightParts parts = weight_parts(x);
  return weight_of(parts, kWeightPowers[parts.k % 32]);
}

}  // namespace kvik
