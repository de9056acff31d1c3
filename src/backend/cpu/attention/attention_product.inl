// The inner products of attention: M rows times N vectors of sixteen, in registers. Included inside
// an instruction set's namespace, after its vocabulary.
//
// Each output element is one chain of fma in ascending k, in one lane; how rows and vectors are
// grouped into tiles cannot change its bits.

inline F32x16 load_elements(const float* p) { return load(p); }
inline F32x16 load_elements(const uint16_t* p) { return load_bf16(p); }

template <uint32_t kValue>
struct Count {
  static constexpr uint32_t value = kValue;
};

// function(Count<m>{}) for 1 ≤ m ≤ kMost: where the compiler learns a number.
template <uint32_t kMost, class Function>
inline void with_count(uint32_t m, Function function) {
  if (m == kMost) {
    function(Count<kMost>{});
  } else if constexpr (kMost > 1) {
    with_count<kMost - 1>(m, function);
  }
}

constexpr uint32_t kMostTileVectors = 4;

// Vectors beside each other in a tile of M rows: as many as the registers hold; a few rows need
// more of them to keep enough chains under way.
template <uint32_t M>
inline constexpr uint32_t kTileVectors = kTileRegisters / M >= 4   ? kMostTileVectors
                                         : kTileRegisters / M >= 2 ? 2
                                                                   : 1;

// sums[m][n] = fma(a[m · kRow + k · kStep], b[n][16 k …], sums[m][n]) for k = 0 … n_k − 1. Fetches
// ahead[n] into the cache in step: pages end too soon for the processor's own guesses.
template <uint32_t kRow, uint32_t kStep, uint32_t M, uint32_t N, class Element>
inline void multiply(const float* a, const Element* const (&b)[N], const Element* const (&ahead)[N],
                     uint32_t n_k, F32x16 (&sums)[M][N]) {
  for (size_t k = 0; k < n_k; ++k) {
    F32x16 vectors[N];
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      vectors[n] = load_elements(b[n] + k * kLanes);
      __builtin_prefetch(ahead[n] + k * kLanes);
    }
#pragma GCC unroll 16
    for (uint32_t m = 0; m < M; ++m) {
      const F32x16 factor = set1(a[m * kRow + k * kStep]);
#pragma GCC unroll 4
      for (uint32_t n = 0; n < N; ++n) sums[m][n] = fma(factor, vectors[n], sums[m][n]);
    }
  }
}

// Scores of M queries against N tiles of 16 tokens. queries: [head_dim][M], tiles[n]:
// [head_dim][16], with the N that will be read next behind them; scores: row m at m · kScoreStride,
// tile n at 16 n.
template <uint32_t M, uint32_t N, class Element>
inline void score_tile(const float* queries, const Element* const* tiles, uint32_t head_dim,
                       float scale, float* scores) {
  F32x16 sums[M][N];
  const Element* b[N];
  const Element* ahead[N];
#pragma GCC unroll 4
  for (uint32_t n = 0; n < N; ++n) {
    b[n] = tiles[n];
    ahead[n] = tiles[N + n];
#pragma GCC unroll 16
    for (uint32_t m = 0; m < M; ++m) sums[m][n] = zero();
  }
  multiply<1, M>(queries, b, ahead, head_dim, sums);
  const F32x16 factor = set1(scale);
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      store(scores + m * kScoreStride + n * kLanes, mul(factor, sums[m][n]));
    }
  }
}

// Tokens whose V lie behind each other in a page: values: [dim blocks][kPageTokens][16], from the
// first of them on; ahead: what will be read later, of the same shape.
template <class Element>
struct ValueRun {
  const Element* values;
  const Element* ahead;
  uint32_t n_tokens;
};

// Adds the V of tokens, weighted by M rows, to N blocks of 16 dimensions from first_block on.
// weights: row m at m · kScoreStride; out: row m at m · out_stride.
template <uint32_t M, uint32_t N, class Element>
inline void weigh_tile(const float* weights, const ValueRun<Element>* runs, uint32_t n_runs,
                       uint32_t first_block, float* out, uint32_t out_stride) {
  F32x16 sums[M][N];
  out += first_block * kLanes;
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) sums[m][n] = load(out + m * size_t{out_stride} + n * kLanes);
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
      store(out + m * size_t{out_stride} + n * kLanes, sums[m][n]);
    }
  }
}

// score_tile for n_tiles, M queries; kMostTileVectors more pointers stand behind those of `tiles`.
template <uint32_t M, class Element>
inline void score_tiles(const float* queries, const Element* const* tiles, uint32_t n_tiles,
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

// weigh_tile for n_blocks of 16 dimensions, M rows.
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
