// Matrix products of attention: M rows times N vectors of sixteen, in registers. Included inside
// the namespace of an instruction set, after its vector functions.
//
// Each output element is one chain of fma in ascending k, in one lane. The grouping of rows and
// vectors into tiles therefore does not change its bits.

inline F32x16 load_elements(const float* p) { return load(p); }
inline F32x16 load_elements(const uint16_t* p) { return load_bf16(p); }

// Elements as factors of a product, and the sums of such products. The lanes of bf16 are shuffled.
inline F32x16 load_factors(const float* p) { return load(p); }
inline F32x16 load_factors(const uint16_t* p) { return load_bf16_shuffled(p); }
template <class Element>
inline F32x16 load_factor_sums(const float* p) {
  if constexpr (sizeof(Element) == sizeof(float)) return load(p);
  return shuffled(load(p));
}
template <class Element>
inline void store_factor_sums(float* p, F32x16 sums) {
  if constexpr (sizeof(Element) == sizeof(float)) return store(p, sums);
  store(p, unshuffled(sums));
}

// A number as a type.
template <uint32_t kValue>
struct Count {
  static constexpr uint32_t value = kValue;
};

// Calls function(Count<m>{}) for 1 ≤ m ≤ kMost, so that m is a compile-time constant in `function`.
template <uint32_t kMost, class Function>
inline void with_count(uint32_t m, Function function) {
  if (m == kMost) {
    function(Count<kMost>{});
  } else if constexpr (kMost > 1) {
    with_count<kMost - 1>(m, function);
  }
}

constexpr uint32_t kMaxTileVectors = 4;

// Vectors per tile of M rows: as many as fit into the registers. With few rows, more vectors are
// needed to keep enough chains in progress.
template <uint32_t M>
inline constexpr uint32_t kTileVectors = kTileRegisters / M >= 4   ? kMaxTileVectors
                                         : kTileRegisters / M >= 2 ? 2
                                                                   : 1;

// sums[m][n] = fma(a[m · kRow + k · kStep], b[n][16 k …], sums[m][n]) for k = 0 … n_k − 1. Also
// prefetches as much of ahead[n] into the second-level cache, because pages are too short for the
// hardware prefetcher.
template <uint32_t kRow, uint32_t kStep, uint32_t M, uint32_t N, class Element>
inline void multiply(const float* a, const Element* const (&b)[N], const Element* const (&ahead)[N],
                     uint32_t n_k, F32x16 (&sums)[M][N]) {
  for (size_t k = 0; k < n_k; ++k) {
    F32x16 vectors[N];
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      vectors[n] = load_factors(b[n] + k * kLanes);
      __builtin_prefetch(ahead[n] + k * kLanes, 0, 2);
    }
#pragma GCC unroll 16
    for (uint32_t m = 0; m < M; ++m) {
      const F32x16 factor = set1(a[m * kRow + k * kStep]);
#pragma GCC unroll 4
      for (uint32_t n = 0; n < N; ++n) sums[m][n] = fma(factor, vectors[n], sums[m][n]);
    }
  }
}

// Sixteen tokens of K, [head_dim][16], and data of the same size to prefetch.
template <class Element>
struct FloatTile {
  const Element* keys;
  const Element* ahead;
};

// Computes the scores of M queries against N tiles. queries: [head_dim][M]; scores: row m at m ·
// kScoreStride, tile n at 16 n.
template <uint32_t M, uint32_t N, class Element>
inline void score_tile(const float* queries, const FloatTile<Element>* tiles, uint32_t head_dim,
                       float scale, float* scores) {
  F32x16 sums[M][N];
  const Element* b[N];
  const Element* ahead[N];
#pragma GCC unroll 4
  for (uint32_t n = 0; n < N; ++n) {
    b[n] = tiles[n].keys;
    ahead[n] = tiles[n].ahead;
#pragma GCC unroll 16
    for (uint32_t m = 0; m < M; ++m) sums[m][n] = zero();
  }
  multiply<1, M>(queries, b, ahead, head_dim, sums);
  const F32x16 factor = set1(scale);
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      store_factor_sums<Element>(scores + m * kScoreStride + n * kLanes, mul(factor, sums[m][n]));
    }
  }
}

// Tokens whose V is adjacent in a page. values: [dim blocks][kPageTokens][16], starting at the
// first of the tokens; ahead: data of the same size to prefetch.
template <class Element>
struct ValueRun {
  const Element* values;
  const Element* ahead;
  uint32_t n_tokens;
};

// Adds V, weighted by M rows, to N blocks of 16 dimensions starting at first_block. weights: row m
// at m · kScoreStride; out: row m at m · out_stride.
template <uint32_t M, uint32_t N, class Element>
inline void weigh_tile(const float* weights, const ValueRun<Element>* runs, uint32_t n_runs,
                       uint32_t first_block, float* out, uint32_t out_stride) {
  F32x16 sums[M][N];
  out += first_block * kLanes;
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      sums[m][n] = load_factor_sums<Element>(out + m * size_t{out_stride} + n * kLanes);
    }
  }
  for (uint32_t i = 0; i < n_runs; ++i) {
    const Element* b[N];
    const Element* ahead[N];
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      b[n] = runs[i].values + (first_block + n) * kPageTokens * kLanes;
      ahead[n] = runs[i].ahead + (first_block + n) * kPageTokens * kLanes;
    }
    multiply<kScoreStride, 1>(weights, b, ahead, runs[i].n_tokens, sums);
    weights += runs[i].n_tokens;
  }
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      store_factor_sums<Element>(out + m * size_t{out_stride} + n * kLanes, sums[m][n]);
    }
  }
}

// Calls score_tile for n_tiles tiles and M queries.
template <uint32_t M, class Element>
inline void score_tiles(const float* queries, const FloatTile<Element>* tiles, uint32_t n_tiles,
                        uint32_t head_dim, float scale, float* scores) {
  constexpr uint32_t kMost = kTileVectors<M>;
  uint32_t t = 0;
  for (; t + kMost <= n_tiles; t += kMost) {
    score_tile<M, kMost>(queries, tiles + t, head_dim, scale, scores + t * kLanes);
  }
  for (; t < n_tiles; ++t) {
    score_tile<M, 1>(queries, tiles + t, head_dim, scale, scores + t * kLanes);
  }
}

// Calls weigh_tile for n_blocks blocks of 16 dimensions and M rows.
template <uint32_t M, class Element>
inline void weigh_blocks(const float* weights, const ValueRun<Element>* runs, uint32_t n_runs,
                         uint32_t n_blocks, float* out) {
  constexpr uint32_t kMost = kTileVectors<M>;
  const uint32_t out_stride = n_blocks * kLanes;
  uint32_t i = 0;
  for (; i + kMost <= n_blocks; i += kMost) {
    weigh_tile<M, kMost>(weights, runs, n_runs, i, out, out_stride);
  }
  for (; i < n_blocks; ++i) weigh_tile<M, 1>(weights, runs, n_runs, i, out, out_stride);
}
