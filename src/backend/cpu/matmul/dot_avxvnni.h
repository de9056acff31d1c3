#pragma once

#include "backend/cpu/isa/vec_avxvnni.h"

// The integer products of dot_scalar.h with VPDPBUSD on 256 bits. The comments are in dot_scalar.h.
namespace kvik::cpu::avxvnni {

#include "backend/cpu/matmul/dot_256.inl"

template <class Levels, uint32_t kStart>
struct UnsignedSums : Levels {
  static constexpr uint32_t kStartWord = kStart;
  using Weights = Weights4;
  using Sums = I32x16;
  static Sums begin(int32_t start) { return {_mm256_set1_epi32(start), _mm256_set1_epi32(start)}; }
  static Sums add(Sums s, Weights w, __m256i x) {
    return {_mm256_dpbusd_avx_epi32(s.lo, w.lo, x), _mm256_dpbusd_avx_epi32(s.hi, w.hi, x)};
  }
  static I32x16 end(Sums s, int32_t, float) { return s; }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<Levels>(block, out); }
};

template <uint32_t kStart, uint32_t kMost = 255>
using DotBytes = UnsignedSums<ByteLevels, kStart>;
template <uint32_t kStart>
using DotBytes4 = DotBytes<kStart>;
using DotQ8 = DotBytes<2>;
template <uint32_t kStart>
using DotQ4 = UnsignedSums<Q4Levels, kStart>;
using DotQ5 = UnsignedSums<Q5Levels, 0>;
using DotQ6 = UnsignedSums<Q6Levels, 2>;

}  // namespace kvik::cpu::avxvnni
