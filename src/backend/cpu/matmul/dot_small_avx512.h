#pragma once

#include "backend/cpu/matmul/dot_avx512.h"
#include "backend/cpu/matmul/matmul_kernels.h"

// The layouts of dot_small_scalar.h in 512-bit registers. The comments are in dot_small_scalar.h.
namespace kvik::cpu::avx512 {

inline F32x16 load_high_nibbles(const uint8_t* p) {
  const __m512i bytes = _mm512_cvtepu8_epi32(load_128(p));
  return {_mm512_cvtepi32_ps(_mm512_srli_epi32(bytes, 4))};
}

template <class Dot>
inline void widen_prepared(const uint8_t* block, uint8_t* out) {
  constexpr uint32_t kSteps = 8 / Dot::kPreparations;
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t share = 0; share < Dot::kPreparations; ++share) {
      const typename Dot::Prepared from(block, half, share);
      for (uint32_t step = share * kSteps; step < (share + 1) * kSteps; ++step) {
        Dot::store(from.load(step), out, half, Dot::group_of(step));
      }
    }
  }
}

// Returns shuffle indices: dword i has the number i in the bytes where `where` is 1, and 0
// elsewhere.
inline __m512i numbers_of_lanes(int32_t where) {
  const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_mullo_epi32(number, _mm512_set1_epi32(where));
}
// Returns byte i four times in dword i.
inline __m512i four_of_each(__m128i bytes) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), numbers_of_lanes(0x01010101));
}
// Returns byte i in both words of dword i.
inline __m512i words_of_each(__m128i bytes) {
  const __m512i nothing = _mm512_set1_epi32(static_cast<int32_t>(0x80008000u));
  const __m512i from = _mm512_or_si512(numbers_of_lanes(0x00010001), nothing);
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), from);
}
// Returns 0, 1, 2 and 3 times a number below 64, in bytes: a table for each dword of four bytes.
inline __m512i multiples(__m512i words) {
  return _mm512_mullo_epi16(words, _mm512_set1_epi32(0x03020100));
}
// Looks up two bits of each byte in the table of the byte's dword.
inline __m512i look_up(__m512i table, __m512i pairs, uint32_t pair) {
  const __m512i table_of_dword =
      _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
  const __m512i low = pair == 0 ? pairs : _mm512_srli_epi16(pairs, 2 * pair);
  const __m512i number =
      _mm512_ternarylogic_epi32(low, _mm512_set1_epi8(3), table_of_dword, 0xea);  // a & b | c
  return _mm512_shuffle_epi8(table, number);
}

struct DotQ5Signed : DotQ5 {
  static constexpr uint32_t kStartWord = 2;
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    uint64_t bits;
    __builtin_memcpy(&bits, block + 512 + 16 * group_of(step) + 8 * half, sizeof(bits));
    const __m512i both = _mm512_loadu_si512(block + kGroupBytes * (step / 2) + 64 * half);
    const __m512i halves = step % 2 == 0 ? both : _mm512_srli_epi16(both, 4);
    const __m512i upper =
        _mm512_mask_blend_epi8(bits, _mm512_set1_epi8(112), _mm512_set1_epi8(-128));
    return _mm512_ternarylogic_epi32(halves, _mm512_set1_epi8(15), upper, 0xea);  // a & b | c
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ5Signed>(block, out); }
};

template <const uint8_t (&kOperands)[16]>
struct DotTable : DotQ4<2> {
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m512i table = _mm512_broadcast_i32x4(load_128(kOperands));
    return _mm512_shuffle_epi8(table, DotQ4::load(block, half, step));
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotTable>(block, out); }
};

struct DotNvFp4 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m512i table = _mm512_broadcast_i32x4(load_128(kNvFp4Operands));
    const __m512i both = _mm512_loadu_si512(block + kGroupBytes * (step % 4) + 64 * half);
    const __m512i nibbles = step < 4 ? both : _mm512_srli_epi16(both, 4);
    return _mm512_shuffle_epi8(table, _mm512_and_si512(nibbles, _mm512_set1_epi8(15)));
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotNvFp4>(block, out); }
};

struct DotInt4 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 32 + 512;
  static constexpr uint32_t kPreparations = 1;
  static constexpr uint32_t group_of(uint32_t step) { return DotQ4<2>::group_of(step); }
  struct Prepared {
    const uint8_t* levels;
    uint32_t half;
    __m512i offsets;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t h, uint32_t)
        : levels(block + 32), half(h), offsets(four_of_each(load_128(block + kLanes * h))) {}
    Weights load(uint32_t step) const {
      return _mm512_add_epi8(DotQ4<2>::load(levels, half, step), offsets);
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotInt4>(block, out); }
};

struct DotInt8 : DotBytes<3> {
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotInt8>(block, out); }
};

struct DotQ2 : UnsignedSums {
  static constexpr uint32_t kStartWord = 0;
  static constexpr uint32_t kBlockBytes = 64 + 256;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    __m512i table, pairs;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t part) {
      const __m512i words = words_of_each(load_128(block + kLanes * (2 * part + half)));
      table = multiples(_mm512_and_si512(words, _mm512_set1_epi16(15)));
      pairs = _mm512_loadu_si512(block + 64 + kGroupBytes * part + 64 * half);
    }
    Weights load(uint32_t step) const { return look_up(table, pairs, step % 4); }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotQ2>(block, out); }
};

struct DotQ3 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 64 + 256 + 128;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  // Scales are bytes s + 32. A weight is 128 − s · level = 128 + 32 · level − (s + 32) · level,
  // which the table has for levels 0 to 3. Levels that are 4 less get 4 · s in addition.
  struct Prepared {
    const uint8_t* bits;
    __m512i table, four_scales, pairs;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t part) {
      const __m512i words = words_of_each(load_128(block + kLanes * (2 * part + half)));
      const __m512i start = _mm512_set1_epi32(static_cast<int32_t>(0xe0c0a080u));
      table = _mm512_sub_epi8(start, multiples(words));
      four_scales = _mm512_xor_si512(_mm512_mullo_epi16(words, _mm512_set1_epi16(0x0404)),
                                     _mm512_set1_epi8(-128));
      pairs = _mm512_loadu_si512(block + 64 + kGroupBytes * part + 64 * half);
      bits = block + 64 + 256 + 8 * half;
    }
    Weights load(uint32_t step) const {
      uint64_t is_below;
      __builtin_memcpy(&is_below, bits + 16 * step, sizeof(is_below));
      const __m512i w = look_up(table, pairs, step % 4);
      return _mm512_mask_add_epi8(w, is_below, w, four_scales);
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotQ3>(block, out); }
};

}  // namespace kvik::cpu::avx512
