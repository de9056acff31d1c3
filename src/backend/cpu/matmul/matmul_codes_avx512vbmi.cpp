#include "backend/cpu/isa/tiles.h"
#include "backend/cpu/matmul/dot_codes_avx512.h"
#include "backend/cpu/matmul/matmul_kernels.h"

// The kernels of types with a codebook for processors that look up bytes in registers (AVX-512
// VBMI: Zen 4, Ice Lake and later). VPGATHERDD takes about twenty cycles for sixteen columns; here
// 64 codes are looked up at once in tables of two bytes a point. What is included above is compiled
// without VBMI, because the linker may keep its copy for other files.
#pragma GCC target("avx512vbmi")

namespace kvik::cpu::avx512vbmi {

using namespace avx512;

// The digits of a grid and the operands that they mean, for each value of the six low bits of a
// byte of which the lowest two or four are a digit.
template <const auto& kGrid>
struct Lookup;

template <size_t kBase>
struct Operands {
  alignas(64) uint8_t of[64] = {};
  constexpr Operands(const int8_t (&digits)[kBase], int offset) {
    constexpr size_t kLow = kBase > 4 ? 15 : 3;
    for (size_t i = 0; i < 64; ++i) {
      if ((i & kLow) < kBase) of[i] = static_cast<uint8_t>(128 + digits[i & kLow] + offset);
    }
  }
};
inline constexpr Operands kIq3XxsOperands(kIq3XxsDigits, 0);
inline constexpr Operands kIq3SOperands(kIq3SDigits, 0);
inline constexpr Operands kIq2Operands(kIq2Digits, 0);
inline constexpr Operands kIq1Operands(kIq1Digits, 1);

template <>
struct Lookup<kIq3XxsGrid> {
  static constexpr const auto& kPlanes = kIq3XxsPlanes;
  static constexpr const auto& kOperands = kIq3XxsOperands;
};
template <>
struct Lookup<kIq3SGrid> {
  static constexpr const auto& kPlanes = kIq3SPlanes;
  static constexpr const auto& kOperands = kIq3SOperands;
};
template <>
struct Lookup<kIq2XxsGrid> {
  static constexpr const auto& kPlanes = kIq2XxsPlanes;
  static constexpr const auto& kOperands = kIq2Operands;
};
template <>
struct Lookup<kIq2XsGrid> {
  static constexpr const auto& kPlanes = kIq2XsPlanes;
  static constexpr const auto& kOperands = kIq2Operands;
};
template <>
struct Lookup<kIq2SGrid> {
  static constexpr const auto& kPlanes = kIq2SPlanes;
  static constexpr const auto& kOperands = kIq2Operands;
};
template <>
struct Lookup<kIq1Grid> {
  static constexpr const auto& kPlanes = kIq1Planes;
  static constexpr const auto& kOperands = kIq1Operands;
};

// Looks up 64 bytes. bits[b]: bit b + 7 of the indices, of which `low` has the lower seven.
template <uint32_t kPoints>
inline __m512i look_up_bytes(const uint8_t* table, __m512i low, const __mmask64* bits) {
  if constexpr (kPoints == 128) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), low, _mm512_load_si512(table + 64));
  } else {
    constexpr uint32_t kHalf = kPoints / 2;
    constexpr uint32_t kBit = kPoints == 256 ? 0 : kPoints == 512 ? 1 : kPoints == 1024 ? 2 : 3;
    static_assert(kPoints == 256u << kBit);
    return _mm512_mask_mov_epi8(look_up_bytes<kHalf>(table, low, bits), bits[kBit],
                                look_up_bytes<kHalf>(table + kHalf, low, bits));
  }
}

template <const auto& kGrid, PackedCodes kPlanes, uint32_t kTimes = 1>
struct DotCodes : UnsignedSums {
  static constexpr uint32_t kStartWord = 2, kStartTimes = kTimes;
  static constexpr uint32_t kBlockBytes = kPlanes.bytes();
  static constexpr uint32_t kStepsOfCode = 8 / kPlanes.n;
  static constexpr uint32_t kPreparations = kPlanes.n / 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }

  // Two codes of 32 columns. The lookups of both halves of a panel are the same, so that the
  // compiler does them once.
  struct Prepared {
    const uint8_t* signs;
    uint32_t half;
    __m512i digits[2];
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t h, uint32_t share)
        : signs(block + kPlanes.signs_at()), half(h) {
      using Table = Lookup<kGrid>;
      constexpr uint32_t kPoints = sizeof(Table::kPlanes.plane[0]);
      const __m512i codes = _mm512_loadu_si512(block + 64 * share);
      __mmask64 bits[4] = {_mm512_movepi8_mask(codes)};
      for (uint32_t bit = 0; bit < kPlanes.n_high; ++bit) {
        bits[bit + 1] = load_mask<uint64_t>(block + kPlanes.high_at(2 * share, bit));
      }
      for (uint32_t i = 0; i < 2; ++i) {
        digits[i] = look_up_bytes<kPoints>(Table::kPlanes.plane[i], codes, bits);
      }
    }
    Weights load(uint32_t step) const {
      const Weights levels = operands(step);
      if constexpr (kPlanes.n_shifts > 0) {
        const auto shifts =
            load_mask<uint16_t>(signs + 4 * (step * kPlanes.n_shifts / 8) + 2 * half);
        return _mm512_mask_sub_epi32(levels, shifts, levels, _mm512_set1_epi32(0x02020202));
      } else {
        const auto is_negative = load_mask<uint64_t>(signs + 16 * step + 8 * half);
        return _mm512_mask_sub_epi8(levels, is_negative, _mm512_setzero_si512(), levels);
      }
    }

   private:
    // Gives each column's dword the bytes with its digits, shifts the digit of each byte down, and
    // looks up its operand.
    Weights operands(uint32_t step) const {
      const __m512i table = _mm512_load_si512(Lookup<kGrid>::kOperands.of);
      const __m512i column =
          _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const uint32_t first = 32 * (step / kStepsOfCode % 2) + kLanes * half;
      const __m512i number = _mm512_mullo_epi32(column, _mm512_set1_epi32(0x01010101));
      __m512i from = _mm512_add_epi8(number, _mm512_set1_epi8(static_cast<char>(first)));
      __m512i bytes, place;
      if constexpr (kStepsOfCode == 2) {  // four digits of two bits in one byte
        bytes = _mm512_permutexvar_epi8(from, digits[step % 2]);
        place = _mm512_set1_epi64(0x2624222006040200);
      } else {  // two digits of four bits in each of two bytes
        from = _mm512_xor_si512(from, _mm512_set1_epi32(0x40400000));
        bytes = _mm512_permutex2var_epi8(digits[0], from, digits[1]);
        place = _mm512_set1_epi64(0x3430242014100400);
      }
      return _mm512_permutexvar_epi8(_mm512_multishift_epi64_epi8(place, bytes), table);
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotCodes>(block, out); }
};

#include "backend/cpu/matmul/matmul_codes.inl"

}  // namespace kvik::cpu::avx512vbmi
