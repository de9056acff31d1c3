#pragma once

#include "backend/cpu/vec_avx2.h"

// The integer products of dot_scalar.h by VPMADDUBSW, whose sums of pairs must fit 16 bits.
// Comments stand there.
namespace kvik::cpu::avx2 {

inline constexpr uint32_t kGroupBytes = 2 * kLanes * 4;

inline __m256i broadcast_levels(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi32(four);
}

inline __m256i add_pairs(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// Signed weights: |w| is the unsigned operand and x takes w's sign. |w| ≤ 128 and |x| ≤ 127, so a
// pair is at most 32512 (with the signs the other way round, −128 could not change its own).
struct DotQ8 {
  static constexpr uint32_t kSteps = 8;
  static constexpr uint32_t kBlockBytes = 1024;
  static constexpr uint32_t kOffset = 128;
  struct Weights {
    __m256i lo, hi;
  };
  using Sums = I32x16;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t step) {
    const __m256i sign = _mm256_set1_epi8(-128);
    return {_mm256_xor_si256(load_256(block + kGroupBytes * step), sign),
            _mm256_xor_si256(load_256(block + kGroupBytes * step + 32), sign)};
  }
  static Sums begin(int32_t) { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static __m256i pairs(__m256i w, __m256i x) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  }
  static Sums add(Sums s, Weights w, __m256i x) {
    return {add_pairs(s.lo, pairs(w.lo, x)), add_pairs(s.hi, pairs(w.hi, x))};
  }
  static I32x16 end(Sums s, int32_t) { return s; }
  static void widen(const uint8_t* block, uint8_t* out) {
    for (uint32_t i = 0; i < kBlockBytes; i += 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), load_256(block + i));
    }
  }
};

// Eight pairs of at most 2 · 15 · 127 fit 16 bits, so that one widening serves a whole block.
struct DotWideQ4 {
  static constexpr uint32_t kSteps = 8;
  static constexpr uint32_t kBlockBytes = 1024;
  static constexpr uint32_t kOffset = 8;
  struct Weights {
    __m256i lo, hi;
  };
  using Sums = I32x16;  // of 16-bit pairs
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t step) {
    return {load_256(block + kGroupBytes * step), load_256(block + kGroupBytes * step + 32)};
  }
  static Sums begin(int32_t) { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static Sums add(Sums s, Weights w, __m256i x) {
    return {_mm256_add_epi16(s.lo, _mm256_maddubs_epi16(w.lo, x)),
            _mm256_add_epi16(s.hi, _mm256_maddubs_epi16(w.hi, x))};
  }
  static I32x16 end(Sums s, int32_t offset) {
    const __m256i start = _mm256_set1_epi32(offset);
    return {add_pairs(start, s.lo), add_pairs(start, s.hi)};
  }
};

struct DotQ4 : DotWideQ4 {
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t group_of(uint32_t step) { return step / 2 + 4 * (step % 2); }
  static __m256i half_of(const uint8_t* p, uint32_t which) {
    const __m256i both = load_256(p);
    const __m256i halves = which == 0 ? both : _mm256_srli_epi16(both, 4);
    return _mm256_and_si256(halves, _mm256_set1_epi8(15));
  }
  static Weights load(const uint8_t* block, uint32_t step) {
    const uint8_t* p = block + kGroupBytes * (step / 2);
    return {half_of(p, step % 2), half_of(p + 32, step % 2)};
  }
  static void widen(const uint8_t* block, uint8_t* out) {
    for (uint32_t step = 0; step < kSteps; ++step) {
      for (uint32_t half = 0; half < kGroupBytes; half += kGroupBytes / 2) {
        const Weights w = load(block + half, step);
        auto* at = reinterpret_cast<__m256i*>(out + kGroupBytes * group_of(step) + half);
        _mm256_storeu_si256(at, w.lo);
        _mm256_storeu_si256(at + 1, w.hi);
      }
    }
  }
};

}  // namespace kvik::cpu::avx2
