// The layouts of dot_codes_scalar.h in 256-bit registers. dot_codes_<isa>.h includes this file
// inside its namespace. The comments are in dot_codes_scalar.h.

inline F32x16 odd_factors(__m128i lo, __m128i hi) {
  const auto odd = [](__m128i bytes) {
    const __m256i s = _mm256_cvtepu8_epi32(bytes);
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1)));
  };
  return {odd(lo), odd(hi)};
}
inline F32x16 load_low_factors(const uint8_t* p) {
  const __m128i low = _mm_set1_epi8(15);
  return odd_factors(_mm_and_si128(load_64(p), low), _mm_and_si128(load_64(p + 8), low));
}
inline F32x16 load_high_factors(const uint8_t* p) {
  const __m128i low = _mm_set1_epi8(15);
  return odd_factors(_mm_and_si128(_mm_srli_epi16(load_64(p), 4), low),
                     _mm_and_si128(_mm_srli_epi16(load_64(p + 8), 4), low));
}

// Returns `value` in the dwords whose bit is set in a byte.
inline __m256i where_set(const uint8_t* byte, int32_t value) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(*byte), bit), bit);
  return _mm256_and_si256(set, _mm256_set1_epi32(value));
}

template <const auto& kGrid, PackedCodes kPlanes>
struct CodeLevels {
  static constexpr uint32_t kBlockBytes = kPlanes.bytes();
  static constexpr uint32_t group_of(uint32_t step) { return step; }

  // Returns four levels of eight columns from `column` on.
  static __m256i look_up(const uint8_t* block, uint32_t column, uint32_t step) {
    constexpr uint32_t kStepsOfCode = 8 / kPlanes.n;
    const uint32_t number = step / kStepsOfCode;
    __m256i codes = _mm256_cvtepu8_epi32(load_64(block + 32 * number + column));
    for (uint32_t bit = 0; bit < kPlanes.n_high; ++bit) {
      const uint8_t* high = block + kPlanes.high_at(number, bit) + column / 8;
      codes = _mm256_or_si256(codes, where_set(high, 256 << bit));
    }
    const uint8_t* points = kGrid.levels[0] + 4 * (step % kStepsOfCode);
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(points), codes, 4 * kStepsOfCode);
  }
  static __m256i eight(const uint8_t* block, uint32_t column, uint32_t step) {
    const __m256i levels = look_up(block, column, step);
    const uint8_t* signs = block + kPlanes.signs_at();
    if constexpr (kPlanes.n_shifts > 0) {
      const uint8_t* shifts = signs + 4 * (step * kPlanes.n_shifts / 8) + column / 8;
      return _mm256_sub_epi8(levels, where_set(shifts, 0x02020202));
    } else {
      const __m256i is_negative = Q5Levels::is_set(signs + 16 * step + column / 2);
      return _mm256_sub_epi8(_mm256_xor_si256(levels, is_negative), is_negative);
    }
  }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    return {eight(block, kLanes * half, step), eight(block, kLanes * half + 8, step)};
  }
};

struct BitLevels {
  static constexpr uint32_t kBlockBytes = 128;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  // Bytes that are set are −1; 127 − 2 · −1 is 129.
  static __m256i operands(const uint8_t* bits) {
    const __m256i is_set = Q5Levels::is_set(bits);
    return _mm256_sub_epi8(_mm256_set1_epi8(127), _mm256_add_epi8(is_set, is_set));
  }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const uint8_t* bits = block + 16 * step + 8 * half;
    return {operands(bits), operands(bits + 4)};
  }
};

struct TernaryLevels {
  static constexpr uint32_t kBlockBytes = 256;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static __m256i operands(__m256i pairs, uint32_t step) {
    const __m256i low = _mm256_srli_epi16(pairs, static_cast<int>(2 * (step % 4)));
    return _mm256_add_epi8(_mm256_and_si256(low, _mm256_set1_epi8(3)), _mm256_set1_epi8(127));
  }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const Weights4 pairs = load_weights(block + kGroupBytes * (step / 4) + 64 * half);
    return {operands(pairs.lo, step), operands(pairs.hi, step)};
  }
};
