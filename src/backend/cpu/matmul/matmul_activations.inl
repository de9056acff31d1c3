// Packing of activations into tiles of rows. Included by matmul.inl.

// Processes sixteen k of all rows at a time, because a whole tile would not fit into the
// first-level cache.
inline void pack_f32(const ActivationTile& t) {
  auto* out = reinterpret_cast<float*>(t.out);
  for (uint32_t begin = 0; begin < t.k; begin += kLanes) {
    const uint32_t end = t.k - begin < kLanes ? t.k : begin + kLanes;
    for (uint32_t r = 0; r < t.n_rows; ++r) {
      const float* x = t.row(r);
      for (uint32_t k = begin; k < end; ++k) out[size_t{k} * t.n_rows + r] = x[k];
    }
  }
  if (t.k % 2 == 1) {
    for (uint32_t r = 0; r < t.n_rows; ++r) out[size_t{t.k} * t.n_rows + r] = 0;
  }
}

// Reduces the lanes of each vector by a commutative and associative operation; lane i of the result
// is that of vectors[i]. Sixteen vectors take 30 permutations together; one by one they would take
// 64. The vectors are undefined afterwards.
template <class Operation>
inline F32x16 reduce_each(F32x16 (&vectors)[kLanes], Operation operation) {
#pragma GCC unroll 4
  for (uint32_t n = kLanes / 2; n > 0; n /= 2) {
#pragma GCC unroll 8
    for (uint32_t i = 0; i < n; ++i) {
      const F32x16 a = vectors[2 * i];
      const F32x16 b = vectors[2 * i + 1];
      vectors[i] = operation(even_lanes(a, b), odd_lanes(a, b));
    }
  }
  return vectors[0];
}

// Returns the peaks (largest magnitudes) of up to sixteen blocks of one row.
inline F32x16 peaks_of_blocks(const float* x, uint32_t n_blocks) {
  F32x16 peaks[kLanes];
  for (uint32_t b = 0; b < kLanes; ++b) {
    const float* block = x + b * kActivationBlock;
    peaks[b] = b < n_blocks ? max(abs(load(block)), abs(load(block + kLanes))) : zero();
  }
  return reduce_each(peaks, [](F32x16 a, F32x16 b) { return max(a, b); });
}

// Quantization of one row: x ≈ scale · power · level, with one scale per row and a power of two per
// block of 32. The power of a block is the smallest power of two that is at least the block's peak
// / (127 · scale). The scale is peak / 127 of the whole row times 2^0, 2^(1/4), 2^(1/2) or 2^(3/4),
// whichever gives the least noise with these powers. A peak close to zero counts as zero, so that
// 127 / peak is finite. A NaN becomes an arbitrary level.
struct RowLevels {
  float scale, inverse;  // of the row, and 1 / scale
  float peak;
  float ratio;  // 2^0, 2^(−1/4), 2^(−1/2) or 2^(−3/4): the inverse of the scale's factor
};

inline constexpr float kMinPeak = 0x1p-90f;
inline constexpr float kMinPower = 0x1p-24f;
inline constexpr float kQuarterPowers[4] = {1.0f, 0x1.306fep+0f, 0x1.6a09e6p+0f, 0x1.ae89fap+0f};
inline constexpr float kInversePowers[4] = {1.0f, 0x1.ae89fap-1f, 0x1.6a09e6p-1f, 0x1.306fep-1f};

// Returns the powers of sixteen blocks. inverse_power: RowLevels::ratio.
inline F32x16 powers_of_blocks(F32x16 peaks, float row_peak, float inverse_power) {
  const F32x16 share = mul(div(peaks, set1(row_peak)), set1(inverse_power));
  return ceil_power_of_2(max(share, set1(kMinPower)));
}

// Chooses the scale of a row. peaks: those of all blocks, [n_blocks rounded up to 16]
inline RowLevels choose_levels(const float* peaks, uint32_t n_blocks) {
  F32x16 highest = zero();
  for (uint32_t b = 0; b < n_blocks; b += kLanes) highest = max(highest, load(peaks + b));
  const float peak = max_lanes(highest);
  if (!(peak >= kMinPeak)) return {0, 0, 1, 1};
  F32x16 noise[4] = {zero(), zero(), zero(), zero()};
  for (uint32_t b = 0; b < n_blocks; b += kLanes) {
    for (uint32_t i = 0; i < 4; ++i) {
      const F32x16 power = powers_of_blocks(load(peaks + b), peak, kInversePowers[i]);
      noise[i] = fma(power, power, noise[i]);
    }
  }
  uint32_t best = 0;
  float least = sum_lanes(noise[0]);
  for (uint32_t i = 1; i < 4; ++i) {
    const float sum = sum_lanes(noise[i]) * kQuarterPowers[i] * kQuarterPowers[i];
    if (sum < least) {
      least = sum;
      best = i;
    }
  }
  return {peak / 127.0f * kQuarterPowers[best], 127.0f / peak * kInversePowers[best], peak,
          kInversePowers[best]};
}

inline I32x16 levels_of(F32x16 x, F32x16 inverse) {
  return round_to_i32(min(max(mul(x, inverse), set1(-127.0f)), set1(127.0f)));
}

// The words of one row in a packed block of n rows.
struct RowWords {
  uint8_t* words;  // the row's words are n words (of four bytes) apart
  size_t n;
  template <class T>
  void set(uint32_t word, T value) const {
    __builtin_memcpy(words + word * n * 4, &value, 4);
  }
};

// Sums of the levels of up to sixteen blocks, for the first and the second half of each block. The
// sums are exact.
struct LevelSums {
  F32x16 first[kLanes], second[kLanes];

  void pack(uint32_t block, const float* x, float inverse, int8_t* levels) {
    const I32x16 lo = levels_of(load(x), set1(inverse));
    const I32x16 hi = levels_of(load(x + kLanes), set1(inverse));
    store_i8(levels, lo);
    store_i8(levels + kLanes, hi);
    first[block] = to_f32(lo);
    second[block] = to_f32(hi);
  }
  static F32x16 sum(F32x16 a, F32x16 b) { return add(a, b); }
};

// Returns the number of words per row and block.
constexpr uint32_t words_of(ActivationFormat format) {
  return format == ActivationFormat::kInt8 ? 3 : 4;
}

// Writes the words of up to sixteen blocks of one row. powers: by block.
template <ActivationFormat kFormat>
inline void write_words(LevelSums& sums, uint32_t n_blocks, const float* powers, size_t block_bytes,
                        RowWords out) {
  float lo_sums[kLanes], hi_sums[kLanes];
  if constexpr (kFormat == ActivationFormat::kInt8) {
    for (uint32_t b = 0; b < n_blocks; ++b) sums.first[b] = add(sums.first[b], sums.second[b]);
  } else {
    store(hi_sums, reduce_each(sums.second, LevelSums::sum));
  }
  store(lo_sums, reduce_each(sums.first, LevelSums::sum));
  for (uint32_t b = 0; b < n_blocks; ++b) {
    const float shift = 0x1.8p+23f * powers[b];
    const auto shift_bits = __builtin_bit_cast(int32_t, shift);
    const auto lo_sum = static_cast<int32_t>(lo_sums[b]);
    out.set(0, shift);
    if constexpr (kFormat == ActivationFormat::kInt8) {
      out.set(1, shift_bits - 8 * lo_sum);
      out.set(2, shift_bits - 128 * lo_sum);
    } else {
      const auto hi_sum = static_cast<int32_t>(hi_sums[b]);
      if constexpr (kFormat == ActivationFormat::kInt8Sums) {
        out.set(1, static_cast<float>(lo_sum + hi_sum) * powers[b]);
        out.set(2, shift_bits - 32 * lo_sum);
        out.set(3, shift_bits - 32 * hi_sum);
      } else {
        out.set(1, lo_sums[b] * powers[b]);
        out.set(2, hi_sums[b] * powers[b]);
        out.set(3, shift_bits - 128 * (lo_sum + hi_sum));
      }
    }
    out.words += block_bytes;
  }
}

// Returns row r in the column order that the weights need.
inline const float* ordered_row(const ActivationTile& t, uint32_t r) {
  const float* x = t.row(r);
  if (!t.gather) return x;
  float* ordered = t.scratch + pack_peak_floats(t.k);
  for (uint32_t k = 0; k < t.k; ++k) ordered[k] = x[t.gather[k]];
  return ordered;
}

template <ActivationFormat kFormat>
inline void pack_int8(const ActivationTile& t) {
  const uint32_t n_blocks = t.k / kActivationBlock;
  const size_t block_bytes = size_t{t.n_rows} * (kActivationBlock + words_of(kFormat) * 4);
  auto* tile = reinterpret_cast<uint8_t*>(t.out);
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    const float* x = ordered_row(t, r);
    for (uint32_t b = 0; b < n_blocks; b += kLanes) {
      const uint32_t n = n_blocks - b < kLanes ? n_blocks - b : kLanes;
      store(t.scratch + b, peaks_of_blocks(x + b * kActivationBlock, n));
    }
    const RowLevels row = choose_levels(t.scratch, n_blocks);
    uint8_t* out = tile;
    for (uint32_t begin = 0; begin < n_blocks; begin += kLanes) {
      const uint32_t n = n_blocks - begin < kLanes ? n_blocks - begin : kLanes;
      const F32x16 power = powers_of_blocks(load(t.scratch + begin), row.peak, row.ratio);
      float powers[kLanes], inverses[kLanes];
      store(powers, power);
      store(inverses, div(set1(row.inverse), power));
      LevelSums sums = {};
      for (uint32_t i = 0; i < n; ++i) {
        const float* block = x + (begin + i) * kActivationBlock;
        __builtin_prefetch(block + t.stride);  // of the next row
        __builtin_prefetch(block + t.stride + kLanes);
        sums.pack(i, block, inverses[i],
                  reinterpret_cast<int8_t*>(out + i * block_bytes) + r * kActivationBlock);
      }
      write_words<kFormat>(sums, n, powers, block_bytes,
                           {out + size_t{t.n_rows} * kActivationBlock + 4 * r, t.n_rows});
      out += n * block_bytes;
    }
    __builtin_memcpy(tile + n_blocks * block_bytes + 4 * r, &row.scale, 4);
  }
}

inline constexpr ActivationKernels kF32Activations = {
    [](uint32_t) { return Tiles::kFloatRows; },
    [](uint32_t k) { return (size_t{k} + k % 2) * sizeof(float); }, pack_f32};
template <ActivationFormat kFormat>
inline constexpr ActivationKernels kInt8Activations = {
    [](uint32_t n_rows) {
      const bool few = n_rows > Tiles::kQuantRows && n_rows <= Tiles::kFewRows;
      return few ? few_rows_tile(n_rows) : Tiles::kQuantRows;
    },
    [](uint32_t k) {
      return k / kActivationBlock * size_t{kActivationBlock + words_of(kFormat) * 4} +
             sizeof(float);
    },
    pack_int8<kFormat>};
