// Packing of activations into tiles of rows: included by matmul.inl.

inline constexpr uint32_t kInt8BlockBytes = kActivationBlock + 3 * 4;  // of one row

// Sixteen k of all rows at a time: the tile as a whole would not fit the first-level cache.
inline void pack_f32(const ActivationTile& t) {
  auto* out = reinterpret_cast<float*>(t.out);
  for (uint32_t begin = 0; begin < t.k; begin += kLanes) {
    const uint32_t end = t.k - begin < kLanes ? t.k : begin + kLanes;
    for (uint32_t r = 0; r < t.n_rows; ++r) {
      const float* x = t.x + r * t.stride;
      for (uint32_t k = begin; k < end; ++k) out[size_t{k} * t.n_rows + r] = x[k];
    }
  }
  if (t.k % 2 == 1) {
    for (uint32_t r = 0; r < t.n_rows; ++r) out[size_t{t.k} * t.n_rows + r] = 0;
  }
}

// Up to sixteen blocks of one row: level = round(x · 127 / peak), x ≈ peak / 127 · level. A peak
// that is nearly zero counts as zero, so that 127 / peak stays finite; a NaN becomes some level.
struct BlockScales {
  float scale[kLanes];
  float inverse[kLanes];
};

inline BlockScales scales_of_blocks(const float* x, uint32_t n_blocks) {
  float peaks[kLanes] = {};
  for (uint32_t b = 0; b < n_blocks; ++b) {
    const float* block = x + b * kActivationBlock;
    peaks[b] = max_lanes(max(abs(load(block)), abs(load(block + kLanes))));
  }
  const F32x16 peak = load(peaks);
  const F32x16 least = set1(0x1p-118f);
  const F32x16 levels = set1(127.0f);
  BlockScales scales;
  store(scales.scale, select_ge(peak, least, div(peak, levels), zero()));
  store(scales.inverse, select_ge(peak, least, div(levels, peak), zero()));
  return scales;
}

inline I32x16 levels_of(F32x16 x, F32x16 inverse) {
  return round_to_i32(min(max(mul(x, inverse), set1(-127.0f)), set1(127.0f)));
}

// One row's share of a packed block of n rows.
struct PackedBlock {
  int8_t* levels;
  uint8_t* words;  // its scale, then its sums, n words apart
  size_t n;
};

inline void pack_block(const float* x, float scale, float inverse, const PackedBlock& out) {
  const I32x16 lo = levels_of(load(x), set1(inverse));
  const I32x16 hi = levels_of(load(x + kLanes), set1(inverse));
  store_i8(out.levels, lo);
  store_i8(out.levels + kLanes, hi);
  const auto sum = static_cast<int32_t>(sum_lanes(add(to_f32(lo), to_f32(hi))));  // exact
  const int32_t minus_8_sums = -8 * sum;
  const int32_t minus_128_sums = -128 * sum;
  __builtin_memcpy(out.words, &scale, 4);
  __builtin_memcpy(out.words + out.n * 4, &minus_8_sums, 4);
  __builtin_memcpy(out.words + out.n * 8, &minus_128_sums, 4);
}

inline void pack_int8(const ActivationTile& t) {
  const uint32_t n_blocks = t.k / kActivationBlock;
  const size_t block_bytes = size_t{t.n_rows} * kInt8BlockBytes;
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    for (uint32_t begin = 0; begin < n_blocks; begin += kLanes) {
      const uint32_t n = n_blocks - begin < kLanes ? n_blocks - begin : kLanes;
      const float* x = t.x + r * t.stride + begin * kActivationBlock;
      auto* out = reinterpret_cast<uint8_t*>(t.out) + begin * block_bytes;
      const BlockScales scales = scales_of_blocks(x, n);
      for (uint32_t b = 0; b < n; ++b) {
        pack_block(x + b * kActivationBlock, scales.scale[b], scales.inverse[b],
                   {.levels = reinterpret_cast<int8_t*>(out) + r * kActivationBlock,
                    .words = out + size_t{t.n_rows} * kActivationBlock + 4 * r,
                    .n = t.n_rows});
        out += block_bytes;
      }
    }
  }
}
