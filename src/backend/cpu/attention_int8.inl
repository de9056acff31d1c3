// Attention over int8 pages: one split of the pairs of a block. Part of attention.inl.
//
// Both products are sums of small integers, exact in any order:
//   query       level_q[d] = q[d] in 127 steps of the row's own peak
//   score[t]    = (Σd level_q[d] · level_k[d][t]) · scale_k[t]
//   p[t]        = 2^((score[t] − top) · scale_q · scale / ln 2), to 6e-6; 0 where t is not visible
//                 (with a soft cap, the score is multiplied and capped before)
//   w[t]        = p[t] · scale_v[t], in steps of the most of them: see steps_of_weights
//   sum[d]      = (Σt level_w[t] · level_v[t][d]) · scale_w
//
// Levels of queries and of weights together add 11 to 19% to the mean error that K and V in int8
// make in the logits of small models. A second plane of the query's levels could take no more than
// that away, and would about double the first product, a fifth of the time of a prefill.

struct Quantum {
  float scale;    // of one step
  float inverse;  // steps to 1
};

// Of values in ±peak, peak not below 0, with n steps to the peak. A peak that is nearly zero counts
// as zero, so that n / peak stays finite; one near infinity is cut, so that n steps do.
inline Quantum quantum_for(float peak, float n) {
  if (!(peak >= 0x1p-110f)) return {0.0f, 0.0f};
  const float limited = peak < 0x1p127f ? peak : 0x1p127f;
  return {limited / n, n / limited};
}

// For int8 levels of one head. A NaN is not counted, and becomes some level.
inline Quantum quantum_of(const float* x, uint32_t head_dim) {
  F32x16 peak = zero();
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    peak = max(abs(load_first(x + d, lesser(kLanes, head_dim - d))), peak);
  }
  return quantum_for(max_lanes(peak), 127.0f);
}

inline I32x16 levels_of(F32x16 x, Quantum quantum) {
  return round_to_i32(min(max(mul(x, set1(quantum.inverse)), set1(-127.0f)), set1(127.0f)));
}

inline uint32_t round_up_4(uint32_t n) { return (n + 3) / 4 * 4; }
inline size_t key_tile_bytes(uint32_t head_dim) { return size_t{round_up_4(head_dim)} * kLanes; }
constexpr size_t kValueBlockBytes = size_t{kPageTokens} * kLanes;  // sixteen dimensions of a page

constexpr uint32_t kMostInt8Vectors = 4;
template <uint32_t M>
inline constexpr uint32_t kInt8Vectors = kInt8TileRegisters / M >= 4   ? kMostInt8Vectors
                                         : kInt8TileRegisters / M >= 2 ? 2
                                                                       : 1;

// chunk after chunk, each [head_dim / 4][pairs of the chunk][4] levels.
inline void quantize_queries(Block& block) {
  const uint32_t head_dim = block.task.layout.head_dim;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    auto* out =
        reinterpret_cast<int8_t*>(block.queries) + size_t{chunk.begin} * round_up_4(head_dim);
    for (uint32_t pair = chunk.begin; pair < chunk.end; ++pair) {
      const float* q = block.query(pair);
      const Quantum quantum = quantum_of(q, head_dim);
      int32_t sum = 0;
      for (uint32_t d = 0; d < head_dim; d += kLanes) {
        const uint32_t n = lesser(kLanes, head_dim - d);
        int8_t levels[kLanes];
        store_i8(levels, levels_of(load_first(q + d, n), quantum));
        for (uint32_t j = 0; j < n; ++j) sum += levels[j];
        for (uint32_t j = 0; j < n; j += 4) {
          const size_t word = size_t{(d + j) / 4} * chunk.size() + (pair - chunk.begin);
          __builtin_memcpy(out + 4 * word, levels + j, 4);
        }
      }
      block.query_scale[pair] = quantum.scale * block.task.scale;
      block.minus_128_levels[pair] = -128 * sum;
    }
  }
}

// K of sixteen tokens, and what will be read later, of the same size.
struct KeyTile {
  const uint8_t* levels;
  const float* scales;
  const std::byte* ahead;
};

// kSteps words of the queries' levels from `step` on. GCC 12 moves all sums to other registers and
// back in each turn of a loop, so that a turn should be long.
template <uint32_t kSteps, uint32_t M, uint32_t N>
inline void add_keys(const int8_t* queries, const KeyTile* tiles, size_t step,
                     IntSums (&sums)[M][N]) {
#pragma GCC unroll 8
  for (size_t k = step; k < step + kSteps; ++k) {
    KeyBytes keys[N];
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      keys[n] = load_keys(tiles[n].levels + 64 * k);
      __builtin_prefetch(tiles[n].ahead + 64 * k, 0, 2);
    }
#pragma GCC unroll 16
    for (uint32_t m = 0; m < M; ++m) {
      const QueryWord q = query_word(queries + 4 * (k * M + m));
#pragma GCC unroll 4
      for (uint32_t n = 0; n < N; ++n) sums[m][n] = dot_keys(sums[m][n], keys[n], q);
    }
  }
}

// Scores of M queries against N tiles, without the queries' scales. queries: [n_steps][M][4];
// scores: row m at m · kScoreStride, tile n at 16 n.
template <uint32_t M, uint32_t N>
inline void score_int8_tile(const int8_t* queries, const int32_t* minus_128_levels,
                            const KeyTile* tiles, uint32_t n_steps, float* scores) {
  IntSums sums[M][N];
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) sums[m][n] = begin_keys(minus_128_levels[m]);
  }
  uint32_t step = 0;
  for (; step + 8 <= n_steps; step += 8) add_keys<8>(queries, tiles, step, sums);
  for (; step < n_steps; ++step) add_keys<1>(queries, tiles, step, sums);
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      store(scores + m * kScoreStride + n * kLanes,
            mul(to_f32(end_sums(sums[m][n])), load(tiles[n].scales)));
    }
  }
}

template <uint32_t M>
inline void score_int8_tiles(const int8_t* queries, const int32_t* minus_128_levels,
                             const KeyTile* tiles, uint32_t n_tiles, uint32_t n_steps,
                             float* scores) {
  constexpr uint32_t kMost = kInt8Vectors<M>;
  uint32_t t = 0;
  for (; t + kMost <= n_tiles; t += kMost) {
    score_int8_tile<M, kMost>(queries, minus_128_levels, tiles + t, n_steps, scores + t * kLanes);
  }
  for (; t < n_tiles; ++t) {
    score_int8_tile<M, 1>(queries, minus_128_levels, tiles + t, n_steps, scores + t * kLanes);
  }
}

inline void score_int8(const Block& block, Chunk chunk, Range split) {
  const AttendTask& task = block.task;
  const uint32_t head_dim = task.layout.head_dim;
  const size_t k_bytes = task.layout.k_bytes();
  const size_t tile_bytes = key_tile_bytes(head_dim);
  const Range seen = tiles_of(common(block.seen_by_any(chunk), split));
  KeyTile tiles[kSplitTokens / kLanes];
  for (uint32_t t = seen.begin; t < seen.end; ++t) {
    const std::byte* keys = task.pages[t / kTilesPerPage] + task.block_offset;
    const size_t offset = t % kTilesPerPage * tile_bytes;
    const auto* scales = reinterpret_cast<const float*>(keys + kTilesPerPage * tile_bytes);
    tiles[t - seen.begin] = {.levels = reinterpret_cast<const uint8_t*>(keys) + offset,
                             .scales = scales + t % kTilesPerPage * kLanes,
                             .ahead = keys + k_bytes + offset};
  }
  with_count<kInt8TileRows>(chunk.size(), [&](auto m) {
    score_int8_tiles<m.value>(
        reinterpret_cast<const int8_t*>(block.queries) + size_t{chunk.begin} * round_up_4(head_dim),
        block.minus_128_levels + chunk.begin, tiles, seen.end - seen.begin,
        round_up_4(head_dim) / 4, block.scores + (seen.begin * kLanes - split.begin));
  });
}

#include "backend/cpu/attention_int8_weights.inl"

#include "backend/cpu/attention_int8_values.inl"

inline void attend_int8_split(Block& block, Range split) {
  const uint32_t first_page = split.begin / kPageTokens;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    const Range seen = common(block.seen_by_any(chunk), split);
    if (seen.empty()) continue;
    const Range pages = {seen.begin / kPageTokens - first_page,
                         (seen.end - 1) / kPageTokens + 1 - first_page};
    float scale[kInt8TileRows];
    score_int8(block, chunk, split);
    weigh_int8_scores(block, chunk, split, pages, scale);
    weigh_int8_values(block, chunk, split, pages, scale);
  }
}
