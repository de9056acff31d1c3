#pragma once

#include "backend/cpu/isa/vec_avx2.h"

// The integer products of dot_scalar.h with VPMADDUBSW, which adds pairs of products in 16 bits.
// The comments on the layouts are in dot_scalar.h.
namespace kvik::cpu::avx2 {

#include "backend/cpu/matmul/dot_256.inl"

inline __m256i add_pairs(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
// Makes the compiler add the products of one step before it computes those of the next. GCC would
// add the products of eight steps as a tree and keep nearly all of them on the stack.
inline I32x16 in_order(I32x16 s) {
  asm("" : "+x"(s.lo), "+x"(s.hi));
  return s;
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
    return in_order({add_pairs(s.lo, pairs(w.lo, x)), add_pairs(s.hi, pairs(w.hi, x))});
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
    return in_order({_mm256_add_epi16(s.lo, _mm256_maddubs_epi16(w.lo, x)),
                     _mm256_add_epi16(s.hi, _mm256_maddubs_epi16(w.hi, x))});
  }
  static I32x16 end(Sums s, int32_t start, float) {
    return {add_pairs(_mm256_set1_epi32(start), s.lo), add_pairs(_mm256_set1_epi32(start), s.hi)};
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<Levels>(block, out); }
};

// Levels of at most kMost, which is less than 64. Two pairs of products, each at most
// 2 · kMost · 127, or four, fit into 16 bits, so that only every second or fourth step widens them.
template <class Levels, uint32_t kStart, uint32_t kMost>
struct PairSums : Levels {
  static constexpr uint32_t kStartWord = kStart;
  static constexpr uint32_t kStepsOfPairs = 4 * 2 * kMost * 127 < 32768 ? 4 : 2;
  static_assert(kStepsOfPairs * 2 * kMost * 127 < 32768);
  using Weights = Weights4;
  struct Sums {
    I32x16 wide;
    I32x16 pairs;  // sums of 16 bits
  };
  static Sums begin(int32_t start) { return {set1_i32(start), set1_i32(0)}; }
  static Sums add(Sums s, Weights w, __m256i x) {
    s.pairs = in_order({_mm256_add_epi16(s.pairs.lo, _mm256_maddubs_epi16(w.lo, x)),
                        _mm256_add_epi16(s.pairs.hi, _mm256_maddubs_epi16(w.hi, x))});
    return s;
  }
  static Sums widen_pairs(Sums s) {
    return {in_order({add_pairs(s.wide.lo, s.pairs.lo), add_pairs(s.wide.hi, s.pairs.hi)}),
            set1_i32(0)};
  }
  static I32x16 end(Sums s, int32_t, float) { return s.wide; }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<Levels>(block, out); }
};

template <uint32_t kStart>
using DotBytes4 = NibbleSums<ByteLevels, kStart>;
template <uint32_t kStart, uint32_t kMost>
using DotBytes = PairSums<ByteLevels, kStart, kMost>;
template <uint32_t kStart>
using DotQ4 = NibbleSums<Q4Levels, kStart>;
using DotQ5 = PairSums<Q5Levels, 0, 31>;
using DotQ6 = PairSums<Q6Levels, 2, 63>;

}  // namespace kvik::cpu::avx2
