#pragma once

// Arithmetic of single floats with the same bits as one lane of backend/cpu/isa/vec_scalar.h and
// vec_math.inl, operation by operation. nvcc must not fuse operations (-fmad=false) and must round
// divisions and square roots correctly, which is its default.

#include <cstdint>

#include "backend/cuda/kernel/words.cuh"

namespace kvik::cuda {

inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kLanes = 16;  // lanes of the CPU, which determine the order of sums

struct alignas(16) Words4 {
  uint32_t word[4];
};
struct alignas(16) Floats4 {
  float value[4];
};

// Return the second operand if one of the operands is NaN.
__device__ __forceinline__ float max_of(float a, float b) { return a > b ? a : b; }
__device__ __forceinline__ float min_of(float a, float b) { return a < b ? a : b; }

__device__ __forceinline__ uint32_t lesser(uint32_t a, uint32_t b) { return a < b ? a : b; }
__device__ __forceinline__ uint32_t greater(uint32_t a, uint32_t b) { return a > b ? a : b; }

__device__ __forceinline__ float bf16_value(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
// Rounds to nearest, ties to even. A NaN stays a NaN.
__device__ __forceinline__ uint16_t bf16_of(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Rounds to nearest, ties to even. |a| < 2^31.
__device__ __forceinline__ int round_to_int(float a) { return static_cast<int>(rintf(a)); }

// Returns 2^(i − 127), where i is the low 8 bits of a and bit 8 is 0.
__device__ __forceinline__ float exponent_from_low_bits(float a) {
  return __uint_as_float(__float_as_uint(a) << 23);
}
// Returns the smallest power of two ≥ a, for a normal a > 0 up to 2^126.
__device__ __forceinline__ float ceil_power_of_2(float a) {
  return __uint_as_float((__float_as_uint(a) + 0x7fffffu) & 0xff800000u);
}
// Returns a minus the nearest integer, exactly; |a| below 2^22.
__device__ __forceinline__ float fraction(float a) {
  constexpr float kRounder = 12582912.0f;  // 1.5 · 2^23
  return a - ((a + kRounder) - kRounder);
}
// Returns a · 2^n for an integer n.
__device__ __forceinline__ float times_power_of_2(float a, float n) {
  return exponent_from_low_bits(n + (12582912.0f + 127.0f)) * a;
}

// See vec_math.inl.
struct ExpParts {
  float power, rest;
};

__device__ __forceinline__ ExpParts exp_parts(float x) {
  constexpr float kRounder = 0x1.8p+23f + 127.0f;
  const float rounded = fmaf(x, 0x1.715476p+0f, kRounder);
  const float n = rounded - kRounder;
  float r = fmaf(n, -0x1.62e43p-1f, x);
  r = fmaf(n, 0x1.05c61p-29f, r);
  float q = fmaf(0x1.6d110ap-10f, r, 0x1.120b6ep-7f);
  q = fmaf(q, r, 0x1.55551ap-5f);
  q = fmaf(q, r, 0x1.5554dcp-3f);
  q = fmaf(q, r, 0.5f);
  return {exponent_from_low_bits(rounded), fmaf(r * r, q, r)};
}

// Returns e^x for x ≤ 88.375.
__device__ __forceinline__ float exp_up_to_88(float x) {
  const ExpParts parts = exp_parts(x);
  const float value = fmaf(parts.power, parts.rest, parts.power);
  return -0x1.5d58ap+6f >= x ? 0.0f : value;
}

// Returns e^x, limited to its value at 88.375.
__device__ __forceinline__ float exp_of(float x) { return exp_up_to_88(min_of(88.375f, x)); }

__device__ __forceinline__ float tanh_of(float x) {
  const float limited = min_of(20.0f, max_of(-20.0f, x));
  const ExpParts parts = exp_parts(limited + limited);
  const float minus_1 = fmaf(parts.power, parts.rest, parts.power - 1.0f);
  return minus_1 / (minus_1 + 2.0f);
}

__device__ __forceinline__ float soft_capped(float x, float cap) { return cap * tanh_of(x / cap); }

// Returns x / (1 + e^-x).
__device__ __forceinline__ float silu(float x) { return x / (1.0f + exp_of(0.0f - x)); }

// Returns 2^x for −100 ≤ x ≤ 1, approximated as in attention over quantized pages
// (attention_int8_weights.inl).
__device__ __forceinline__ float power_of_2(float x) {
  const float r = fraction(x);
  float q = fmaf(0x1.c3f76p-5f, r, 0x1.f0de1ap-3f);
  q = fmaf(q, r, 0x1.62f31ap-1f);
  q = fmaf(q, r, 0x1.fff692p-1f);
  return times_power_of_2(q, x - r);
}

// Returns the sum of sixteen adjacent lanes, in each of these lanes, separately for the two halves
// of a warp. Adds lanes i and i + 8, then i + 4, i + 2 and i + 1, which is the CPU's order. The
// whole warp must call.
__device__ __forceinline__ float sum_of_16(float v) {
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    v = v + __shfl_xor_sync(kAllLanes, v, half);
  }
  return v;
}
// Like sum_of_16(), for the maximum.
__device__ __forceinline__ float max_of_16(float v) {
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    v = max_of(v, __shfl_xor_sync(kAllLanes, v, half));
  }
  return v;
}

}  // namespace kvik::cuda
