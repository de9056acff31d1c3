#pragma once

#include "backend/cpu/isa/vec_avx2.h"

// The integer products of dot_scalar.h with VPMADDUBSW, which adds pairs of products in 16 bits.
// The comments on the layouts are in dot_scalar.h.
namespace kvik::cpu::avx2 {

#include "backend/cpu/matmul/dot_256.inl"

inline __m256i add_pairs(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline I32x16 set1_i32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }

// Signed weights. VPMADDUBSW gets |w| as its unsigned operand, and x with the sign of w. |w| ≤ 128
// and |x| ≤ 127, so a pair is at most 32512. The reverse would not work, because an x of −128
// cannot be negated.
struct DotQ8 : ByteLevels {
  static constexpr uint32_t kStartWord = 2;
  using Weights = Weights4;
  using Sums = I32x16;
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m256i sign = _mm256_set1_epi8(-128);
    const Weights w = ByteLevels::load(block, half, step);
    return {_mm256_xor_si256(w.lo, sign), _mm256_xor_si256(w.hi, sign)};
  }
  static Sums begin(int32_t) { return set1_i32(0); }
  static __m256i pairs(__m256i w, __m256i x) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  }
  static Sums add(Sums s, Weights w, __m256i x) {
    return {add_pairs(s.lo, pairs(w.lo, x)), add_pairs(s.hi, pairs(w.hi, x))};
  }
  static I32x16 end(Sums s, int32_t, float shift) {
    const __m256i start = _mm256_castps_si256(_mm256_set1_ps(shift));
    return {_mm256_add_epi32(s.lo, start), _mm256_add_epi32(s.hi, start)};
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<ByteLevels>(block, out); }
};

// Levels below 16. Eight pairs, each at most 2 · 15 · 127, fit into 16 bits, so that their sum is
// widened only once per block.
template <class Levels, uint32_t kStart>
struct NibbleSums : Levels {
  static constexpr uint32_t kStartWord = kStart;
  using Weights = Weights4;
  using Sums = I32x16;  // sums of 16-bit pairs
  static Sums begin(int32_t) { return set1_i32(0); }
  static Sums add(Sums s, Weights w, __m256i x) {
    return {_mm256_add_epi16(s.lo, _mm256_maddubs_epi16(w.lo, x)),
            _mm256_add_epi16(s.hi, _mm256_maddubs_epi16(w.hi, x))};
  }
  static I32x16 end(Sums s, int32_t start, float) {
    return {add_pairs(_mm256_set1_epi32(start), s.lo), add_pairs(_mm256_set1_epi32(start), s.hi)};
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<Levels>(block, out); }
};

// Levels below 64. A pair, at most 2 · 63 · 127, fits into 16 bits.
template <class Levels, uint32_t kStart>
struct PairSums : Levels {
  static constexpr uint32_t kStartWord = kStart;
  using Weights = Weights4;
  using Sums = I32x16;
  static Sums begin(int32_t start) { return set1_i32(start); }
  static Sums add(Sums s, Weights w, __m256i x) {
    return {add_pairs(s.lo, _mm256_maddubs_epi16(w.lo, x)),
            add_pairs(s.hi, _mm256_maddubs_epi16(w.hi, x))};
  }
  static I32x16 end(Sums s, int32_t, float) { return s; }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<Levels>(block, out); }
};

template <uint32_t kStart>
using DotBytes4 = NibbleSums<ByteLevels, kStart>;
template <uint32_t kStart>
using DotBytes = PairSums<ByteLevels, kStart>;
template <uint32_t kStart>
using DotQ4 = NibbleSums<Q4Levels, kStart>;
using DotQ5 = PairSums<Q5Levels, 0>;
using DotQ6 = PairSums<Q6Levels, 2>;

}  // namespace kvik::cpu::avx2
