#pragma once

#include "backend/cpu/matmul/dot_avx2.h"
#include "backend/cpu/matmul/matmul_kernels.h"

// The layouts of dot_small_scalar.h, multiplied with VPMADDUBSW. The comments are in
// dot_small_scalar.h.
namespace kvik::cpu::avx2 {

#include "backend/cpu/matmul/dot_small_256.inl"

// Converts 8-bit operands to signed ones, which are multiplied in the same way as those of DotQ8.
inline Weights4 with_signs(Weights4 w) {
  const __m256i sign = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(w.lo, sign), _mm256_xor_si256(w.hi, sign)};
}

template <class Levels>
struct SignedSums : DotQ8 {
  static constexpr uint32_t kBlockBytes = Levels::kBlockBytes;
  static constexpr uint32_t group_of(uint32_t step) { return Levels::group_of(step); }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    return with_signs(Levels::load(block, half, step));
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<Levels>(block, out); }
};

template <class Levels>
struct PreparedSignedSums : DotQ8 {
  static constexpr uint32_t kBlockBytes = Levels::kBlockBytes;
  static constexpr uint32_t kPreparations = Levels::kPreparations;
  static constexpr uint32_t group_of(uint32_t step) { return Levels::group_of(step); }
  struct Prepared : Levels::Prepared {
    using Levels::Prepared::Prepared;
    Weights load(uint32_t step) const { return with_signs(Levels::Prepared::load(step)); }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<Levels>(block, out); }
};

struct DotInt8 : DotQ8 {
  static constexpr uint32_t kStartWord = 3;
};
struct DotQ2 : PairSums<Q2Levels, 0, 45> {
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<Q2Levels>(block, out); }
};
using DotQ5Signed = SignedSums<Q5SignedLevels>;
template <const uint8_t (&kOperands)[16]>
using DotTable = SignedSums<TableLevels<kOperands>>;
using DotNvFp4 = PairSums<NvFp4Levels, 2, 63>;
using DotInt4 = PreparedSignedSums<Int4Levels>;
using DotQ3 = PreparedSignedSums<Q3Levels>;

}  // namespace kvik::cpu::avx2
