#pragma once

#include "backend/cpu/matmul/dot_codes_avx512.h"
#include "tensor/level_tables.h"

// The layouts of dot_tables_scalar.h in 512-bit registers. The comments are in dot_tables_scalar.h.
namespace kvik::cpu::avx512 {

inline F32x16 load_even(const uint8_t* p) {
  const __m128i even = _mm_and_si128(load_128(p), _mm_set1_epi8(-2));
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(even))};
}

template <uint32_t kBits, const auto& kOperands, uint32_t kShift, uint32_t kBytes>
struct DotShiftedTable : UnsignedSums {
  static constexpr uint32_t kStartWord = 2, kStartTimes = kBytes == 1 ? 1 : 4;
  static constexpr uint32_t kLow = kBits < 4 ? 2 : 4, kHigh = kBits - kLow;
  static constexpr uint32_t kLevelsAt = 32 * kBytes, kHighAt = kLevelsAt + 128 * kLow;
  static constexpr uint32_t kBlockBytes = kHighAt + 128 * kHigh;
  static constexpr uint32_t kPreparations = kBytes == 1 ? 1 : 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    const uint8_t* block;
    uint32_t half;
    __m512i shifts;
    Prepared() = default;
    Prepared(const uint8_t* b, uint32_t h, uint32_t share) : block(b), half(h) {
      const uint32_t byte = kBytes == 3 ? 2 : share;
      const __m512i bytes = four_of_each(load_128(block + 32 * byte + kLanes * half));
      const auto bit = static_cast<char>(kBytes == 3 ? 1 << share : 1);
      const __mmask64 are_shifted = _mm512_test_epi8_mask(bytes, _mm512_set1_epi8(bit));
      shifts = _mm512_maskz_mov_epi8(are_shifted, _mm512_set1_epi8(kShift));
    }
    Weights load(uint32_t step) const { return _mm512_add_epi8(operands(step), shifts); }

   private:
    static __m512i table(uint32_t part) {
      return _mm512_broadcast_i32x4(load_128(kOperands.of + 16 * part));
    }
    __m512i levels(uint32_t at, uint32_t group) const {
      return _mm512_loadu_si512(block + at + kGroupBytes * group + 64 * half);
    }
    __m512i low_levels(uint32_t step) const {
      const uint32_t down = kLow == 4 ? step / 4 * 4 : step % 4 * 2;
      const __m512i bytes = levels(kLevelsAt, kLow == 4 ? step % 4 : step / 4);
      const __m512i low = down == 0 ? bytes : _mm512_srli_epi16(bytes, down);
      return _mm512_and_si512(low, _mm512_set1_epi8((1 << kLow) - 1));
    }
    __m512i operands(uint32_t step) const {
      const __m512i low = low_levels(step);
      if constexpr (kHigh == 0) {
        return _mm512_shuffle_epi8(table(0), low);
      } else if constexpr (kHigh == 2) {
        const __m512i pairs = levels(kHighAt, step / 4);
        const auto first = static_cast<char>(1 << (2 * (step % 4)));
        const auto second = static_cast<char>(2 << (2 * (step % 4)));
        const __mmask64 is_odd = _mm512_test_epi8_mask(pairs, _mm512_set1_epi8(first));
        const __mmask64 is_upper = _mm512_test_epi8_mask(pairs, _mm512_set1_epi8(second));
        const __m512i lower =
            _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table(0), low), is_odd, table(1), low);
        const __m512i upper =
            _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table(2), low), is_odd, table(3), low);
        return _mm512_mask_mov_epi8(lower, is_upper, upper);
      } else {
        const auto bits = load_mask<uint64_t>(block + kHighAt + 16 * step + 8 * half);
        if constexpr (kLow == 4) {
          return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table(0), low), bits, table(1), low);
        }
        return _mm512_shuffle_epi8(table(0),
                                   _mm512_mask_add_epi8(low, bits, low, _mm512_set1_epi8(4)));
      }
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) {
    widen_prepared<DotShiftedTable>(block, out);
  }
};

struct DotPairs : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kLevelsAt = 32, kFifthsAt = kLevelsAt + 256;
  static constexpr uint32_t kBlockBytes = kFifthsAt + 64;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    __m512i nibbles, fifths;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t share)
        : nibbles(_mm512_loadu_si512(block + kLevelsAt + kGroupBytes * share + 64 * half)),
          fifths(four_of_each(load_128(block + kFifthsAt + 32 * share + kLanes * half))) {}
    Weights load(uint32_t step) const {
      const uint32_t t = step % 4;
      // Byte t of each dword four times: its low half is the first pair, its high half the second.
      const __m512i from =
          _mm512_broadcast_i32x4(_mm_add_epi8(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c),
                                              _mm_set1_epi8(static_cast<char>(t))));
      const __m512i bytes = _mm512_shuffle_epi8(nibbles, from);
      const __m512i halves = _mm512_mask_mov_epi16(bytes, 0xaaaaaaaa, _mm512_srli_epi16(bytes, 4));
      const __m512i low = _mm512_and_si512(halves, _mm512_set1_epi8(15));
      const auto bits = static_cast<int32_t>(0x02020101u << (2 * t));
      const __mmask64 is_upper = _mm512_test_epi8_mask(fifths, _mm512_set1_epi32(bits));
      return _mm512_mask_mov_epi8(look_up_in(kIq2KlFirst, low, is_upper), 0xaaaaaaaaaaaaaaaa,
                                  look_up_in(kIq2KlSecond, low, is_upper));
    }

   private:
    static __m512i look_up_in(const LevelOperands& operands, __m512i low, __mmask64 is_upper) {
      const __m512i lower = _mm512_broadcast_i32x4(load_128(operands.of));
      const __m512i upper = _mm512_broadcast_i32x4(load_128(operands.of + 16));
      return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(lower, low), is_upper, upper, low);
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotPairs>(block, out); }
};

}  // namespace kvik::cpu::avx512
