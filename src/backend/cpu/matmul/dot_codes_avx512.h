#pragma once

#include "backend/cpu/matmul/dot_small_avx512.h"
#include "tensor/grids.h"
#include "tensor/packed_codes.h"

// The layouts of dot_codes_scalar.h in 512-bit registers. The comments are in dot_codes_scalar.h.
namespace kvik::cpu::avx512 {

inline F32x16 odd_factors(__m128i bytes) {
  const __m512i s = _mm512_cvtepu8_epi32(bytes);
  return {_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(s, s), _mm512_set1_epi32(1)))};
}
inline F32x16 load_low_factors(const uint8_t* p) {
  return odd_factors(_mm_and_si128(load_128(p), _mm_set1_epi8(15)));
}
inline F32x16 load_high_factors(const uint8_t* p) {
  return odd_factors(_mm_and_si128(_mm_srli_epi16(load_128(p), 4), _mm_set1_epi8(15)));
}

template <class Mask>
inline Mask load_mask(const uint8_t* p) {
  Mask mask;
  __builtin_memcpy(&mask, p, sizeof(mask));
  return mask;
}

template <const auto& kGrid, PackedCodes kPlanes, uint32_t kTimes = 1>
struct DotCodes : UnsignedSums {
  static constexpr uint32_t kStartWord = 2, kStartTimes = kTimes;
  static constexpr uint32_t kBlockBytes = kPlanes.bytes();
  static constexpr uint32_t group_of(uint32_t step) { return step; }

  // Returns four levels of sixteen columns.
  static __m512i look_up(const uint8_t* block, uint32_t half, uint32_t step) {
    constexpr uint32_t kStepsOfCode = 8 / kPlanes.n;
    const uint32_t number = step / kStepsOfCode;
    __m512i codes = _mm512_cvtepu8_epi32(load_128(block + 32 * number + kLanes * half));
    for (uint32_t bit = 0; bit < kPlanes.n_high; ++bit) {
      const auto is_set = load_mask<uint16_t>(block + kPlanes.high_at(number, bit) + 2 * half);
      codes = _mm512_mask_add_epi32(codes, is_set, codes, _mm512_set1_epi32(256 << bit));
    }
    const uint8_t* points = kGrid.levels[0] + 4 * (step % kStepsOfCode);
    return _mm512_i32gather_epi32(codes, points, 4 * kStepsOfCode);
  }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m512i levels = look_up(block, half, step);
    const uint8_t* signs = block + kPlanes.signs_at();
    if constexpr (kPlanes.n_shifts > 0) {
      const auto shifts = load_mask<uint16_t>(signs + 4 * (step * kPlanes.n_shifts / 8) + 2 * half);
      return _mm512_mask_sub_epi32(levels, shifts, levels, _mm512_set1_epi32(0x02020202));
    } else {
      const auto is_negative = load_mask<uint64_t>(signs + 16 * step + 8 * half);
      return _mm512_mask_sub_epi8(levels, is_negative, _mm512_setzero_si512(), levels);
    }
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotCodes>(block, out); }
};

struct DotBytesOfHalves : DotBytes<2> {
  static constexpr uint32_t kStartTimes = 4;
};

struct DotTernary : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 256;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m512i pairs = _mm512_loadu_si512(block + kGroupBytes * (step / 4) + 64 * half);
    const uint32_t pair = step % 4;
    const __m512i low = pair == 0 ? pairs : _mm512_srli_epi16(pairs, 2 * pair);
    return _mm512_add_epi8(_mm512_and_si512(low, _mm512_set1_epi8(3)), _mm512_set1_epi8(127));
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotTernary>(block, out); }
};

struct DotBits : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 128;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const auto bits = load_mask<uint64_t>(block + 16 * step + 8 * half);
    return _mm512_mask_blend_epi8(bits, _mm512_set1_epi8(127), _mm512_set1_epi8(-127));
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotBits>(block, out); }
};

}  // namespace kvik::cpu::avx512
