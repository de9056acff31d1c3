// Unpacking of levels in 256-bit registers. dot_<isa>.h includes this file inside its namespace,
// after the functions of vec_<isa>.h. dot_scalar.h describes the layouts.

inline constexpr uint32_t kGroupBytes = 2 * kLanes * 4;

inline __m256i broadcast_levels(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi32(four);
}

struct Weights4 {
  __m256i lo, hi;
};

inline Weights4 load_weights(const uint8_t* p) { return {load_256(p), load_256(p + 32)}; }
inline void store_weights(uint8_t* p, Weights4 w) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), w.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), w.hi);
}

struct ByteLevels {
  static constexpr uint32_t kBlockBytes = 1024;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    return load_weights(block + kGroupBytes * step + 64 * half);
  }
};

template <class Levels>
inline void widen_levels(const uint8_t* block, uint8_t* out) {
  for (uint32_t step = 0; step < 8; ++step) {
    for (uint32_t half = 0; half < 2; ++half) {
      store_weights(out + kGroupBytes * Levels::group_of(step) + 64 * half,
                    Levels::load(block, half, step));
    }
  }
}

struct Q4Levels {
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t group_of(uint32_t step) { return step / 2 + 4 * (step % 2); }
  static __m256i half_of(__m256i both, uint32_t which) {
    const __m256i halves = which == 0 ? both : _mm256_srli_epi16(both, 4);
    return _mm256_and_si256(halves, _mm256_set1_epi8(15));
  }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const Weights4 both = load_weights(block + kGroupBytes * (step / 2) + 64 * half);
    return {half_of(both.lo, step % 2), half_of(both.hi, step % 2)};
  }
};

struct Q5Levels : Q4Levels {
  static constexpr uint32_t kBlockBytes = 512 + 128;
  // Returns 0xff in each byte whose bit is set. Bit i belongs to byte i.
  static __m256i is_set(const uint8_t* p) {
    int32_t bits;
    __builtin_memcpy(&bits, p, sizeof(bits));
    const __m256i byte_of_bit =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of_bit);
    const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
  }
  static __m256i fifths(const uint8_t* p) {
    return _mm256_and_si256(is_set(p), _mm256_set1_epi8(16));
  }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const Weights4 w = Q4Levels::load(block, half, step);
    const uint8_t* bits = block + 512 + 16 * group_of(step) + 8 * half;
    return {_mm256_or_si256(w.lo, fifths(bits)), _mm256_or_si256(w.hi, fifths(bits + 4))};
  }
};

struct Q6Levels {
  static constexpr uint32_t kBlockBytes = 512 + 256;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static __m256i level(__m256i both, __m256i pairs, uint32_t step) {
    const uint32_t pair = step % 4;  // bits 4 and 5 of a level
    const __m256i high = pair < 3 ? _mm256_slli_epi16(pairs, static_cast<int>(4 - 2 * pair))
                                  : _mm256_srli_epi16(pairs, 2);
    return _mm256_or_si256(Q4Levels::half_of(both, step / 4),
                           _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
  }
  static Weights4 load(const uint8_t* block, uint32_t half, uint32_t step) {
    const Weights4 both = load_weights(block + kGroupBytes * (step % 4) + 64 * half);
    const Weights4 pairs = load_weights(block + 512 + kGroupBytes * (step / 4) + 64 * half);
    return {level(both.lo, pairs.lo, step), level(both.hi, pairs.hi, step)};
  }
};
