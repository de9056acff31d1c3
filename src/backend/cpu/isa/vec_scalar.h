#pragma once

#include <cstdint>

#include "tensor/half.h"

// Sixteen lanes in plain C++: the specification of vec_256.inl and vec_avx512.h. Kernels written
// with these functions give the same bits on all sets: every function is one IEEE operation per
// lane, and sums across lanes have one fixed order.
namespace kvik::cpu::scalar {

inline constexpr uint32_t kLanes = 16;

struct F32x16 {
  float lane[kLanes];
};
struct I32x16 {
  int32_t lane[kLanes];
};

template <class Function>
inline F32x16 each_lane(Function function) {
  F32x16 out;
  for (uint32_t i = 0; i < kLanes; ++i) out.lane[i] = function(i);
  return out;
}

inline F32x16 set1(float x) {
  return each_lane([&](uint32_t) { return x; });
}
inline F32x16 zero() { return set1(0.0f); }
inline F32x16 load(const float* p) {
  return each_lane([&](uint32_t i) { return p[i]; });
}
// Lanes ≥ n are zero and not read.
inline F32x16 load_first(const float* p, uint32_t n) {
  return each_lane([&](uint32_t i) { return i < n ? p[i] : 0.0f; });
}
inline F32x16 load_bf16(const uint16_t* p) {
  return each_lane([&](uint32_t i) { return bf16_to_f32(p[i]); });
}
inline F32x16 load_f16(const uint16_t* p) {
  return each_lane([&](uint32_t i) { return f16_to_f32(p[i]); });
}
inline F32x16 load_u8(const uint8_t* p) {
  return each_lane([&](uint32_t i) { return static_cast<float>(p[i]); });
}
inline F32x16 load_i8(const int8_t* p) {
  return each_lane([&](uint32_t i) { return static_cast<float>(p[i]); });
}
// Loads E4M3, each value 256 times too small: as f16 its exponent has bias 15 instead of 7. No NaN.
inline F32x16 load_e4m3(const uint8_t* p) {
  return each_lane([&](uint32_t i) {
    return f16_to_f32(static_cast<uint16_t>((p[i] & 0x80) << 8 | (p[i] & 0x7f) << 7));
  });
}
// Loads the first or second of 16 adjacent pairs of bf16: elements 0, 2, … 30 or 1, 3, … 31.
inline F32x16 load_bf16_even(const uint16_t* p) {
  return each_lane([&](uint32_t i) { return bf16_to_f32(p[2 * i]); });
}
inline F32x16 load_bf16_odd(const uint16_t* p) {
  return each_lane([&](uint32_t i) { return bf16_to_f32(p[2 * i + 1]); });
}
inline void store(float* p, F32x16 v) {
  for (uint32_t i = 0; i < kLanes; ++i) p[i] = v.lane[i];
}
inline void store_first(float* p, F32x16 v, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) p[i] = v.lane[i];
}
inline void store_bf16(uint16_t* p, F32x16 v) {
  for (uint32_t i = 0; i < kLanes; ++i) p[i] = f32_to_bf16(v.lane[i]);
}

inline F32x16 add(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] + b.lane[i]; });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] - b.lane[i]; });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] * b.lane[i]; });
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] / b.lane[i]; });
}
// a · b + c, rounded once.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return each_lane([&](uint32_t i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
// Returns the second operand if one of them is NaN, like vmaxps.
inline F32x16 max(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32x16 abs(F32x16 a) {
  return each_lane([&](uint32_t i) { return __builtin_fabsf(a.lane[i]); });
}
// Lanes with a ≥ b take x, the others y; a NaN takes y.
inline F32x16 select_ge(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return each_lane([&](uint32_t i) { return a.lane[i] >= b.lane[i] ? x.lane[i] : y.lane[i]; });
}
// Lanes in [begin, end) take x, the others y.
inline F32x16 select_range(uint32_t begin, uint32_t end, F32x16 x, F32x16 y) {
  return each_lane([&](uint32_t i) { return i >= begin && i < end ? x.lane[i] : y.lane[i]; });
}

// Returns lanes 0, 2, … or 1, 3, … of a, then of b.
inline F32x16 even_lanes(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return i < 8 ? a.lane[2 * i] : b.lane[2 * i - 16]; });
}
inline F32x16 odd_lanes(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return i < 8 ? a.lane[2 * i + 1] : b.lane[2 * i - 15]; });
}
// Returns a0 b0 a1 b1 … of the lower or upper eight lanes: the inverse of the two above.
inline F32x16 interleave_low(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return i % 2 == 0 ? a.lane[i / 2] : b.lane[i / 2]; });
}
inline F32x16 interleave_high(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return i % 2 == 0 ? a.lane[8 + i / 2] : b.lane[8 + i / 2]; });
}

// Rounds to nearest, ties to even. |a| < 2^31.
inline I32x16 round_to_i32(F32x16 a) {
  I32x16 out;
  for (uint32_t i = 0; i < kLanes; ++i) {
    out.lane[i] = static_cast<int32_t>(__builtin_nearbyintf(a.lane[i]));
  }
  return out;
}
inline F32x16 to_f32(I32x16 a) {
  return each_lane([&](uint32_t i) { return static_cast<float>(a.lane[i]); });
}
// Returns 2^(i − 127), where i are the low 8 bits of the lane and bit 8 is 0: for a float in [2^23,
// 2^24), its value modulo 256.
inline F32x16 exponent_from_low_bits(F32x16 a) {
  return each_lane([&](uint32_t i) {
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, a.lane[i]) << 23);
  });
}
// Returns the float with these bits.
inline F32x16 float_of_bits(I32x16 a) {
  return each_lane([&](uint32_t i) { return __builtin_bit_cast(float, a.lane[i]); });
}
// Returns the smallest power of two ≥ a, for a normal a > 0 up to 2^126.
inline F32x16 ceil_power_of_2(F32x16 a) {
  return each_lane([&](uint32_t i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, a.lane[i]) + 0x7fffffu;
    return __builtin_bit_cast(float, bits & 0xff800000u);
  });
}
// Returns a minus the nearest integer, exactly; |a| below 2^22.
inline F32x16 fraction(F32x16 a) {
  const F32x16 rounder = set1(0x1.8p+23f);
  return sub(a, sub(add(a, rounder), rounder));
}
// Returns a · 2^n for integers n from −126 to 127; neither a nor the result is subnormal.
inline F32x16 times_power_of_2(F32x16 a, F32x16 n) {
  return mul(exponent_from_low_bits(add(n, set1(0x1.8p+23f + 127.0f))), a);
}
// Stores the low byte of every lane.
inline void store_i8(int8_t* p, I32x16 v) {
  for (uint32_t i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(v.lane[i]);
}

// Adds lanes i and i + 8, then i + 4, i + 2, i + 1: the order of every sum across lanes.
inline float sum_lanes(F32x16 v) {
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) v.lane[i] = v.lane[i] + v.lane[i + half];
  }
  return v.lane[0];
}
inline float max_lanes(F32x16 v) {
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) {
      v.lane[i] = v.lane[i] > v.lane[i + half] ? v.lane[i] : v.lane[i + half];
    }
  }
  return v.lane[0];
}

}  // namespace kvik::cpu::scalar
