#pragma once

#include "backend/cpu/vec_avx512.h"

// The integer products of dot_scalar.h by VPDPBUSD. Comments stand there.
namespace kvik::cpu::avx512 {

inline constexpr uint32_t kGroupBytes = 2 * kLanes * 4;

inline __m512i broadcast_levels(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

struct UnsignedSums {
  static constexpr uint32_t kSteps = 8;
  using Weights = __m512i;
  using Sums = __m512i;
  static Sums begin(int32_t offset) { return _mm512_set1_epi32(offset); }
  static Sums add(Sums s, Weights w, __m512i x) { return _mm512_dpbusd_epi32(s, w, x); }
  static I32x16 end(Sums s, int32_t) { return {s}; }
};

struct DotQ8 : UnsignedSums {
  static constexpr uint32_t kBlockBytes = 1024;
  static constexpr uint32_t kOffset = 128;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t step) {
    return _mm512_loadu_si512(block + kGroupBytes * step);
  }
  static void widen(const uint8_t* block, uint8_t* out) {
    for (uint32_t i = 0; i < kBlockBytes; i += 64) {
      _mm512_storeu_si512(out + i, _mm512_loadu_si512(block + i));
    }
  }
};

struct DotQ4 : UnsignedSums {
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t kOffset = 8;
  static constexpr uint32_t group_of(uint32_t step) { return step / 2 + 4 * (step % 2); }
  static Weights load(const uint8_t* block, uint32_t step) {
    const __m512i both = _mm512_loadu_si512(block + kGroupBytes * (step / 2));
    const __m512i halves = step % 2 == 0 ? both : _mm512_srli_epi16(both, 4);
    return _mm512_and_si512(halves, _mm512_set1_epi8(15));
  }
  static void widen(const uint8_t* block, uint8_t* out) {
    for (uint32_t step = 0; step < kSteps; ++step) {
      uint8_t* group = out + kGroupBytes * group_of(step);
      _mm512_storeu_si512(group, load(block, step));
      _mm512_storeu_si512(group + 64, load(block + 64, step));
    }
  }
};

struct DotWideQ4 : DotQ8 {
  static constexpr uint32_t kOffset = 8;
};

}  // namespace kvik::cpu::avx512
