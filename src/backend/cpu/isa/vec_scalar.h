#pragma once

#include <cstdint>

#include "tensor/half.h"

// Vectors of sixteen lanes in plain C++: the specification of vec_256.inl and vec_avx512.h. Kernels
// written with these functions give the same bits on all instruction sets, because each function is
// one IEEE operation per lane, and sums across lanes have a fixed order.
namespace kvik::cpu::scalar {

inline constexpr uint32_t kLanes = 16;

struct F32x16 {
  float lane[kLanes];
};
struct I32x16 {
  int32_t lane[kLanes];
};

// Returns a vector whose lane i is function(i).
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
// Loads n lanes. The other lanes are zero, and their memory is not read.
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
// Loads E4M3. Each value is 256 times too small, because it is read as f16, which has an
// exponent bias of 15 instead of 7. NaN is not supported.
inline F32x16 load_e4m3(const uint8_t* p) {
  return each_lane([&](uint32_t i) {
    return f16_to_f32(static_cast<uint16_t>((p[i] & 0x80) << 8 | (p[i] & 0x7f) << 7));
  });
}
// Load the first or the second element of 16 adjacent pairs of bf16: elements 0, 2, … 30 or 1, 3, …
// 31.
inline F32x16 load_bf16_even(const uint16_t* p) {
  return each_lane([&](uint32_t i) { return bf16_to_f32(p[2 * i]); });
}
inline F32x16 load_bf16_odd(const uint16_t* p) {
  return each_lane([&](uint32_t i) { return bf16_to_f32(p[2 * i + 1]); });
}
// Loads sixteen bf16 in the order of lanes that takes the least work. The other two functions bring
// the lanes of a vector into this order and back.
inline F32x16 load_bf16_shuffled(const uint16_t* p) { return load_bf16(p); }
inline F32x16 shuffled(F32x16 v) { return v; }
inline F32x16 unshuffled(F32x16 v) { return v; }
inline void store(float* p, F32x16 v) {
  for (uint32_t i = 0; i < kLanes; ++i) p[i] = v.lane[i];
}
// Stores the first n lanes.
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
// Returns a · b + c, rounded once.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return each_lane([&](uint32_t i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
// Return the second operand if one of the operands is NaN, like vmaxps and vminps.
inline F32x16 max(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32x16 abs(F32x16 a) {
  return each_lane([&](uint32_t i) { return __builtin_fabsf(a.lane[i]); });
}
// Returns x in lanes with a ≥ b, and y in the others and where a or b is NaN.
inline F32x16 select_ge(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return each_lane([&](uint32_t i) { return a.lane[i] >= b.lane[i] ? x.lane[i] : y.lane[i]; });
}
// Returns x in lanes [begin, end), and y in the others.
inline F32x16 select_range(uint32_t begin, uint32_t end, F32x16 x, F32x16 y) {
  return each_lane([&](uint32_t i) { return i >= begin && i < end ? x.lane[i] : y.lane[i]; });
}
// Returns x in lanes whose bit is set in the lower half of `bits`, and y in the others.
inline F32x16 select_bits(uint32_t bits, F32x16 x, F32x16 y) {
  return each_lane([&](uint32_t i) { return bits >> i & 1 ? x.lane[i] : y.lane[i]; });
}

// Return the even lanes 0, 2, … or the odd lanes 1, 3, … of a, followed by those of b.
inline F32x16 even_lanes(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return i < 8 ? a.lane[2 * i] : b.lane[2 * i - 16]; });
}
inline F32x16 odd_lanes(F32x16 a, F32x16 b) {
  return each_lane([&](uint32_t i) { return i < 8 ? a.lane[2 * i + 1] : b.lane[2 * i - 15]; });
}
// Return a0 b0 a1 b1 … of the lower or upper eight lanes of a and b. They are the inverse of
// even_lanes() and odd_lanes().
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
// Returns 2^(i − 127), where i is the low 8 bits of the lane and bit 8 is 0. For a float in [2^23,
// 2^24), i is its value modulo 256.
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
// Returns a minus the nearest integer, exactly; |a| must be below 2^22.
inline F32x16 fraction(F32x16 a) {
  const F32x16 rounder = set1(0x1.8p+23f);
  return sub(a, sub(add(a, rounder), rounder));
}
// Returns a · 2^k, where n is 1.5 · 2^23 + k. Neither a nor the result may be zero, subnormal or
// infinite.
inline F32x16 add_exponent(F32x16 a, F32x16 n) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t k = __builtin_bit_cast(uint32_t, n.lane[i]) << 23;
    a.lane[i] = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, a.lane[i]) + k);
  }
  return a;
}
// Stores the low byte of each lane.
inline void store_i8(int8_t* p, I32x16 v) {
  for (uint32_t i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(v.lane[i]);
}

// Returns the sum of all lanes. Adds lanes i and i + 8, then i + 4, i + 2 and i + 1; this is the
// order of every sum across lanes.
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
