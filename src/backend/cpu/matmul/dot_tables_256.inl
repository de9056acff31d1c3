// The layouts of dot_tables_scalar.h in 256-bit registers. dot_tables_<isa>.h includes this file
// inside its namespace. The comments are in dot_tables_scalar.h.

inline F32x16 load_even(const uint8_t* p) {
  const auto widen = [](__m128i bytes) {
    const __m128i even = _mm_and_si128(bytes, _mm_set1_epi8(-2));
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(even));
  };
  return {widen(load_64(p)), widen(load_64(p + 8))};
}

template <uint32_t kBits, const auto& kOperands, uint32_t kShift, uint32_t kBytes>
struct ShiftedTableLevels {
  static constexpr uint32_t kLow = kBits < 4 ? 2 : 4, kHigh = kBits - kLow;
  static constexpr uint32_t kLevelsAt = 32 * kBytes, kHighAt = kLevelsAt + 128 * kLow;
  static constexpr uint32_t kBlockBytes = kHighAt + 128 * kHigh;
  static constexpr uint32_t kPreparations = kBytes == 1 ? 1 : 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    const uint8_t* block;
    uint32_t half;
    Weights4 shifts;
    Prepared() = default;
    Prepared(const uint8_t* b, uint32_t h, uint32_t share) : block(b), half(h) {
      const uint32_t byte = kBytes == 3 ? 2 : share;
      const Weights4 bytes = four_of_each(load_16_bytes(block + 32 * byte + kLanes * half));
      const __m256i bit = _mm256_set1_epi8(static_cast<char>(kBytes == 3 ? 1 << share : 1));
      const auto shift_of = [&](__m256i of) {
        const __m256i is_shifted = _mm256_cmpeq_epi8(_mm256_and_si256(of, bit), bit);
        return _mm256_and_si256(is_shifted, _mm256_set1_epi8(kShift));
      };
      shifts = {shift_of(bytes.lo), shift_of(bytes.hi)};
    }
    Weights4 load(uint32_t step) const {
      const Weights4 low = load_weights(block + kLevelsAt + 64 * half +
                                        kGroupBytes * (kLow == 4 ? step % 4 : step / 4));
      const uint8_t* high = block + kHighAt + 16 * step + 8 * half;
      if constexpr (kHigh == 2) high = block + kHighAt + kGroupBytes * (step / 4) + 64 * half;
      constexpr uint32_t kNext = kHigh == 2 ? 32 : 4;
      return {_mm256_add_epi8(operands(low.lo, high, step), shifts.lo),
              _mm256_add_epi8(operands(low.hi, high + kNext, step), shifts.hi)};
    }

   private:
    static __m256i look_up_in(uint32_t part, __m256i low) {
      const __m128i table = load_16_bytes(kOperands.of + 16 * part);
      return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), low);
    }
    static __m256i operands(__m256i bytes, const uint8_t* high, uint32_t step) {
      const auto down = static_cast<int>(kLow == 4 ? step / 4 * 4 : step % 4 * 2);
      const __m256i low =
          _mm256_and_si256(_mm256_srli_epi16(bytes, down), _mm256_set1_epi8((1 << kLow) - 1));
      if constexpr (kHigh == 0) {
        return look_up_in(0, low);
      } else if constexpr (kHigh == 2) {
        const __m256i pairs = load_256(high);
        const auto up = static_cast<int>(2 * (step % 4));
        const __m256i is_odd = _mm256_slli_epi16(pairs, 7 - up);  // in the sign bits
        const __m256i is_upper = _mm256_slli_epi16(pairs, 6 - up);
        const __m256i lower = _mm256_blendv_epi8(look_up_in(0, low), look_up_in(1, low), is_odd);
        const __m256i upper = _mm256_blendv_epi8(look_up_in(2, low), look_up_in(3, low), is_odd);
        return _mm256_blendv_epi8(lower, upper, is_upper);
      } else {
        const __m256i is_set = Q5Levels::is_set(high);
        if constexpr (kLow == 4) {
          return _mm256_blendv_epi8(look_up_in(0, low), look_up_in(1, low), is_set);
        }
        return look_up_in(0, _mm256_or_si256(low, _mm256_and_si256(is_set, _mm256_set1_epi8(4))));
      }
    }
  };
};

struct PairsOfLevels {
  static constexpr uint32_t kLevelsAt = 32, kFifthsAt = kLevelsAt + 256;
  static constexpr uint32_t kBlockBytes = kFifthsAt + 64;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    Weights4 nibbles, fifths;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t share)
        : nibbles(load_weights(block + kLevelsAt + kGroupBytes * share + 64 * half)),
          fifths(four_of_each(load_16_bytes(block + kFifthsAt + 32 * share + kLanes * half))) {}
    Weights4 load(uint32_t step) const {
      return {operands(nibbles.lo, fifths.lo, step % 4), operands(nibbles.hi, fifths.hi, step % 4)};
    }

   private:
    static __m256i look_up_in(const LevelOperands& operands, __m256i low, __m256i is_upper) {
      const __m256i lower = _mm256_broadcastsi128_si256(load_16_bytes(operands.of));
      const __m256i upper = _mm256_broadcastsi128_si256(load_16_bytes(operands.of + 16));
      return _mm256_blendv_epi8(_mm256_shuffle_epi8(lower, low), _mm256_shuffle_epi8(upper, low),
                                is_upper);
    }
    // Byte t of each dword four times: its low half is the first pair, its high half the second.
    static __m256i operands(__m256i nibbles, __m256i fifths, uint32_t t) {
      const __m256i from = _mm256_broadcastsi128_si256(
          _mm_add_epi8(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c),
                       _mm_set1_epi8(static_cast<char>(t))));
      const __m256i bytes = _mm256_shuffle_epi8(nibbles, from);
      const __m256i halves = _mm256_blend_epi16(bytes, _mm256_srli_epi16(bytes, 4), 0xaa);
      const __m256i low = _mm256_and_si256(halves, _mm256_set1_epi8(15));
      const __m256i bits = _mm256_set1_epi32(static_cast<int32_t>(0x02020101u << (2 * t)));
      const __m256i is_upper = _mm256_cmpeq_epi8(_mm256_and_si256(fifths, bits), bits);
      return _mm256_blendv_epi8(look_up_in(kIq2KlFirst, low, is_upper),
                                look_up_in(kIq2KlSecond, low, is_upper),
                                _mm256_set1_epi16(static_cast<int16_t>(0xff00)));
    }
  };
};
