#pragma once

#include "backend/cpu/isa/vec_avx512.h"

// The integer products of dot_scalar.h with VPDPBUSD. The comments are in dot_scalar.h.
namespace kvik::cpu::avx512 {

inline constexpr uint32_t kGroupBytes = 2 * kLanes * 4;

inline __m512i broadcast_levels(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

struct UnsignedSums {
  using Weights = __m512i;
  using Sums = __m512i;
  static Sums begin(int32_t start) { return _mm512_set1_epi32(start); }
  static Sums add(Sums s, Weights w, __m512i x) { return _mm512_dpbusd_epi32(s, w, x); }
  static I32x16 end(Sums s, int32_t, float) { return {s}; }
  static void store(Weights w, uint8_t* block, uint32_t half, uint32_t group) {
    _mm512_store_si512(block + kGroupBytes * group + 64 * half, w);
  }
};

template <uint32_t kStart, uint32_t kMost = 255>
struct DotBytes : UnsignedSums {
  static constexpr uint32_t kStartWord = kStart;
  static constexpr uint32_t kBlockBytes = 1024;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    return _mm512_loadu_si512(block + kGroupBytes * step + 64 * half);
  }
};
template <uint32_t kStart>
using DotBytes4 = DotBytes<kStart>;

template <class Dot>
inline void widen_levels(const uint8_t* block, uint8_t* out) {
  for (uint32_t step = 0; step < 8; ++step) {
    for (uint32_t half = 0; half < 2; ++half) {
      _mm512_storeu_si512(out + kGroupBytes * Dot::group_of(step) + 64 * half,
                          Dot::load(block, half, step));
    }
  }
}

struct DotQ8 : DotBytes<2> {
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ8>(block, out); }
};

template <uint32_t kStart>
struct DotQ4 : UnsignedSums {
  static constexpr uint32_t kStartWord = kStart;
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t group_of(uint32_t step) { return step / 2 + 4 * (step % 2); }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m512i both = _mm512_loadu_si512(block + kGroupBytes * (step / 2) + 64 * half);
    const __m512i halves = step % 2 == 0 ? both : _mm512_srli_epi16(both, 4);
    return _mm512_and_si512(halves, _mm512_set1_epi8(15));
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ4>(block, out); }
};

struct DotQ5 : DotQ4<0> {
  static constexpr uint32_t kBlockBytes = 512 + 128;
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    uint64_t bits;
    __builtin_memcpy(&bits, block + 512 + 16 * group_of(step) + 8 * half, sizeof(bits));
    const __m512i w = DotQ4::load(block, half, step);
    return _mm512_mask_add_epi8(w, bits, w, _mm512_set1_epi8(16));
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ5>(block, out); }
};

struct DotQ6 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 512 + 256;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m512i both = _mm512_loadu_si512(block + kGroupBytes * (step % 4) + 64 * half);
    const __m512i low = step < 4 ? both : _mm512_srli_epi16(both, 4);
    const __m512i pairs = _mm512_loadu_si512(block + 512 + kGroupBytes * (step / 4) + 64 * half);
    const uint32_t pair = step % 4;  // bits 4 and 5 of a level
    const __m512i high =
        pair < 3 ? _mm512_slli_epi16(pairs, 4 - 2 * pair) : _mm512_srli_epi16(pairs, 2);
    const __m512i upper = _mm512_and_si512(high, _mm512_set1_epi8(0x30));
    return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi8(15)), upper);
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ6>(block, out); }
};

}  // namespace kvik::cpu::avx512
