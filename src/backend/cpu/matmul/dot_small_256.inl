// The layouts of dot_small_scalar.h in 256-bit registers. dot_small_<isa>.h includes this file
// inside its namespace. The comments are in dot_small_scalar.h. Levels are loaded as unsigned
// operands.

inline __m128i load_16_bytes(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

inline F32x16 load_high_nibbles(const uint8_t* p) {
  const auto widen = [](__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_cvtepu8_epi32(bytes), 4));
  };
  return {widen(load_64(p)), widen(load_64(p + 8))};
}

template <class Levels>
inline void widen_prepared(const uint8_t* block, uint8_t* out) {
  constexpr uint32_t kSteps = 8 / Levels::kPreparations;
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t share = 0; share < Levels::kPreparations; ++share) {
      const typename Levels::Prepared from(block, half, share);
      for (uint32_t step = share * kSteps; step < (share + 1) * kSteps; ++step) {
        store_weights(out + kGroupBytes * Levels::group_of(step) + 64 * half, from.load(step));
      }
    }
  }
}

// Returns shuffle indices: dword i of sixteen has the number i in the bytes where `where` is 1.
// Bytes whose upper bit is set in `nothing` select zero.
inline Weights4 numbers_of_lanes(int32_t where, uint32_t nothing) {
  const __m256i factor = _mm256_set1_epi32(where);
  const __m256i none = _mm256_set1_epi32(static_cast<int32_t>(nothing));
  const __m256i lo = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), factor);
  const __m256i hi = _mm256_mullo_epi32(_mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15), factor);
  return {_mm256_or_si256(lo, none), _mm256_or_si256(hi, none)};
}
inline Weights4 shuffle_16(__m128i bytes, Weights4 from) {
  const __m256i both = _mm256_broadcastsi128_si256(bytes);
  return {_mm256_shuffle_epi8(both, from.lo), _mm256_shuffle_epi8(both, from.hi)};
}
// Returns byte i four times in dword i.
inline Weights4 four_of_each(__m128i bytes) {
  return shuffle_16(bytes, numbers_of_lanes(0x01010101, 0));
}
// Returns byte i in both words of dword i.
inline Weights4 words_of_each(__m128i bytes) {
  return shuffle_16(bytes, numbers_of_lanes(0x00010001, 0x80008000u));
}
// Returns 0, 1, 2 and 3 times a number below 64, in bytes: a table for each dword of four bytes.
inline __m256i multiples(__m256i words) {
  return _mm256_mullo_epi16(words, _mm256_set1_epi32(0x03020100));
}
// Looks up two bits of each byte in the table of the byte's dword.
inline __m256i look_up(__m256i table, __m256i pairs, uint32_t pair) {
  const __m256i table_of_dword =
      _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
  const __m256i low = _mm256_srli_epi16(pairs, static_cast<int>(2 * pair));
  const __m256i two_bits = _mm256_and_si256(low, _mm256_set1_epi8(3));
  return _mm256_shuffle_epi8(table, _mm256_or_si256(two_bits, table_of_dword));
}

struct Q5SignedLevels : Q5Levels {
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m256i offset = _mm256_set1_epi8(112);
    const Weights4 w = Q5Levels::load(block, half, step);
    return {_mm256_add_epi8(w.lo, offset), _mm256_add_epi8(w.hi, offset)};
  }
};

template <const uint8_t (&kOperands)[16]>
struct TableLevels : Q4Levels {
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m256i table = _mm256_broadcastsi128_si256(load_16_bytes(kOperands));
    const Weights4 w = Q4Levels::load(block, half, step);
    return {_mm256_shuffle_epi8(table, w.lo), _mm256_shuffle_epi8(table, w.hi)};
  }
};

struct NvFp4Levels {
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const __m256i table = _mm256_broadcastsi128_si256(load_16_bytes(kNvFp4Operands));
    const Weights4 both = load_weights(block + kGroupBytes * (step % 4) + 64 * half);
    return {_mm256_shuffle_epi8(table, Q4Levels::half_of(both.lo, step / 4)),
            _mm256_shuffle_epi8(table, Q4Levels::half_of(both.hi, step / 4))};
  }
};

struct Int4Levels {
  static constexpr uint32_t kBlockBytes = 32 + 512;
  static constexpr uint32_t kPreparations = 1;
  static constexpr uint32_t group_of(uint32_t step) { return Q4Levels::group_of(step); }
  struct Prepared {
    const uint8_t* levels;
    uint32_t half;
    Weights4 offsets;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t h, uint32_t)
        : levels(block + 32), half(h), offsets(four_of_each(load_16_bytes(block + kLanes * h))) {}
    Weights4 load(uint32_t step) const {
      const Weights4 w = Q4Levels::load(levels, half, step);
      return {_mm256_add_epi8(w.lo, offsets.lo), _mm256_add_epi8(w.hi, offsets.hi)};
    }
  };
};

struct Q2Levels {
  static constexpr uint32_t kBlockBytes = 64 + 256;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    Weights4 table, pairs;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t part) {
      const __m128i bytes = load_16_bytes(block + kLanes * (2 * part + half));
      const Weights4 words = words_of_each(_mm_and_si128(bytes, _mm_set1_epi8(15)));
      table = {multiples(words.lo), multiples(words.hi)};
      pairs = load_weights(block + 64 + kGroupBytes * part + 64 * half);
    }
    Weights4 load(uint32_t step) const {
      return {look_up(table.lo, pairs.lo, step % 4), look_up(table.hi, pairs.hi, step % 4)};
    }
  };
};

struct Q3Levels {
  static constexpr uint32_t kBlockBytes = 64 + 256 + 128;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static __m256i table_of(__m256i words) {
    const __m256i start = _mm256_set1_epi32(static_cast<int32_t>(0xe0c0a080u));
    return _mm256_sub_epi8(start, multiples(words));
  }
  static __m256i four_times(__m256i words) {
    return _mm256_xor_si256(_mm256_mullo_epi16(words, _mm256_set1_epi16(0x0404)),
                            _mm256_set1_epi8(-128));
  }
  struct Prepared {
    const uint8_t* bits;
    Weights4 table, four_scales, pairs;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t part) {
      const Weights4 words = words_of_each(load_16_bytes(block + kLanes * (2 * part + half)));
      table = {table_of(words.lo), table_of(words.hi)};
      four_scales = {four_times(words.lo), four_times(words.hi)};
      pairs = load_weights(block + 64 + kGroupBytes * part + 64 * half);
      bits = block + 64 + 256 + 8 * half;
    }
    Weights4 load(uint32_t step) const {
      const uint8_t* p = bits + 16 * step;
      const __m256i lo = _mm256_and_si256(Q5Levels::is_set(p), four_scales.lo);
      const __m256i hi = _mm256_and_si256(Q5Levels::is_set(p + 4), four_scales.hi);
      return {_mm256_add_epi8(look_up(table.lo, pairs.lo, step % 4), lo),
              _mm256_add_epi8(look_up(table.hi, pairs.hi, step % 4), hi)};
    }
  };
};
