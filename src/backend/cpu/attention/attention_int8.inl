// Attention over int8 and int4 pages: one split for the pairs of a block. Part of attention.inl.
//
// Both products are sums of small integers, which are exact in any order:
//   level_q[d]  = q[d] in steps of 1/127 of the query's own peak
//   score[t]    = (Σd level_q[d] · level_k[d][t]) · scale_k[t]; with groups of dimensions (int4),
//                 the sums of the groups are added in ascending order
//   p[t]        = 2^((score[t] − top) · scale_q · scale / ln 2), with an error of 8e-5; 0 if t is
//                 not visible. With a soft cap, the scaled score is capped before
//   w[t]        = p[t] · scale_v[t], rounded to levels: see steps_of_weights
//   sum[d]      = (Σt level_w[t] · level_v[t][d]) · scale_w; for int4, w is that of d's group
//
// Quantizing queries and weights adds 11 to 19% to the mean error that int8 K and V cause in the
// logits of small models. A second plane of query levels could remove at most that, and would
// roughly double the time of the first product, which takes a fifth of a prefill.

struct QuantScale {
  float scale;    // value of one step
  float inverse;  // steps per unit: 1 / scale
};

// Returns the quantum of values in ±peak, peak ≥ 0, with n steps from zero to the peak. A peak
// close to zero counts as zero, so that n / peak is finite. A peak close to infinity is limited, so
// that n steps are finite.
inline QuantScale quantum_for(float peak, float n) {
  if (!(peak >= 0x1p-110f)) return {0.0f, 0.0f};
  const float limited = peak < 0x1p127f ? peak : 0x1p127f;
  return {limited / n, n / limited};
}

// Returns the quantum for the int8 levels of one head. Ignores NaN, which later becomes an
// arbitrary level.
inline QuantScale quantum_of(const float* x, uint32_t head_dim) {
  F32x16 peak = zero();
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    peak = max(abs(load_first(x + d, lesser(kLanes, head_dim - d))), peak);
  }
  return quantum_for(max_lanes(peak), 127.0f);
}

inline I32x16 levels_of(F32x16 x, QuantScale quantum) {
  return round_to_i32(min(max(mul(x, set1(quantum.inverse)), set1(-127.0f)), set1(127.0f)));
}

constexpr uint32_t kMaxInt8Vectors = 4;
// Vectors per register tile of M pairs.
template <uint32_t M>
inline constexpr uint32_t kInt8Vectors = kInt8TileRegisters / M >= 4   ? kMaxInt8Vectors
                                         : kInt8TileRegisters / M >= 2 ? 2
                                                                       : 1;

// Quanta of the two parts of a query for latent K. The parts differ in magnitude, as those of K do.
struct QueryQuanta {
  QuantScale first, second;
};
inline QueryQuanta quanta_of_query(const float* q, const KvBlockLayout& layout) {
  const QuantScale first = quantum_of(q, layout.value_dim());
  if (layout.latent_dim == 0) return {first, first};
  const QuantScale second = quantum_of(q + layout.latent_dim, layout.head_dim - layout.latent_dim);
  return {first, second};
}

// Quantizes one query and computes −128 · the sum of its levels for each group of dimensions. Each
// four levels are `stride` bytes after the previous four.
inline void quantize_query(const float* q, const KvBlockLayout& layout, const QueryQuanta& quanta,
                           size_t stride, int8_t* out, int32_t* minus_128_levels) {
  const uint32_t head_dim = layout.head_dim;
  const uint32_t value_dim = layout.value_dim();
  const uint32_t n_dims = key_dims(layout);
  const uint32_t group_dims = layout.key_group_dims();
  for (uint32_t d = 0; d < n_dims; minus_128_levels += kBlockPairs) {
    const uint32_t end = lesser(d + group_dims, n_dims);
    F32x16 sum = zero();  // sums of levels are exact
    for (; d < end; d += kLanes) {
      const QuantScale quantum = d < value_dim ? quanta.first : quanta.second;
      const uint32_t n = d < head_dim ? lesser(kLanes, head_dim - d) : 0;
      const I32x16 steps = levels_of(load_first(q + d, n), quantum);
      sum = add(sum, to_f32(steps));
      int8_t levels[kLanes];
      store_i8(levels, steps);
      for (uint32_t j = 0; j < kLanes && d + j < n_dims; j += 4) {
        __builtin_memcpy(out + (d + j) / 4 * stride, levels + j, 4);
      }
    }
    *minus_128_levels = -128 * static_cast<int32_t>(sum_lanes(sum));
  }
}

// Sets the scales of a query. Its scale is that of its first part, unless that is zero; groups of
// the second part have an additional scale.
inline void scale_query(Block& block, uint32_t pair, const QueryQuanta& quanta, float scale) {
  const KvBlockLayout& layout = block.task.layout;
  const bool has_first = quanta.first.scale > 0.0f || layout.latent_dim == 0;
  const float most = has_first ? quanta.first.scale : quanta.second.scale;
  block.query_scale[pair] = most * scale;
  for (uint32_t g = 0; g < layout.n_key_groups(); ++g) {
    const bool is_second = g >= layout.n_value_groups();
    block.group_scale[g][pair] = is_second && has_first ? quanta.second.scale / most : 1.0f;
  }
}

// Steps of ReadAhead for a product of sixteen tokens, or of two blocks of V of a page, with the
// tiles of a matrix unit.
constexpr uint32_t kTileSteps = 4;

// Returns whether the rows of a chunk are enough for the tiles of a matrix unit.
inline bool uses_tiles(uint32_t n_rows) {
  return MatrixTiles::kRows > 0 && n_rows >= MatrixTiles::kLeastRows;
}
// Returns whether tiles compute the scores of a chunk. Dimensions must fill whole tiles. A single
// one is worth it only if V uses tiles too.
inline bool scores_by_tiles(const KvBlockLayout& layout, uint32_t n_rows) {
  constexpr uint32_t kDims = MatrixTiles::kDims;
  const uint32_t dims = layout.key_group_dims();
  return uses_tiles(n_rows) && key_dims(layout) % kDims == 0 && dims % kDims == 0 &&
         (dims > kDims || !has_value_nibbles(layout));
}

// Quantizes the queries of each chunk to [key_dims / 4][pairs of the chunk][4] levels, or, for
// tiles of a matrix unit, to [pairs of the chunk][key_dims]. Rotates the queries before if K is
// rotated.
inline void quantize_queries(Block& block) {
  const KvBlockLayout& layout = block.task.layout;
  const bool turns = layout.rotates_keys();
  const float scale = turns ? block.task.scale / double_rotation_factor(rotated_value_dims(layout))
                            : block.task.scale;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    auto* out = reinterpret_cast<int8_t*>(block.queries) + size_t{chunk.begin} * key_dims(layout);
    const bool in_rows = scores_by_tiles(layout, chunk.size());
    const size_t step = in_rows ? key_dims(layout) : 4;  // bytes to the next pair
    const size_t stride = in_rows ? 4 : size_t{4} * chunk.size();
    for (uint32_t pair = chunk.begin; pair < chunk.end; ++pair) {
      const float* q = block.query(pair);
      if (turns) {
        rotate_query(layout, q, block.spare);
        q = block.spare;
      }
      const QueryQuanta quanta = quanta_of_query(q, layout);
      quantize_query(q, layout, quanta, stride, out + step * (pair - chunk.begin),
                     &block.minus_128_levels[0][pair]);
      scale_query(block, pair, quanta, scale);
    }
  }
}

// Levels of K of sixteen tokens, and their scales.
struct KeyTile {
  const uint8_t* levels;
  const float* scales;
};

// Multiplies K by kSteps words of the queries' levels, starting at word `step`. The loop should
// have long iterations, because GCC 12 moves all sums to other registers and back in each
// iteration.
template <uint32_t kSteps, uint32_t M, uint32_t N>
inline void add_keys(const int8_t* queries, const KeyTile* tiles, size_t step, auto& ahead,
                     IntSums (&sums)[M][N]) {
  auto steps = ahead.take(kSteps * N);
#pragma GCC unroll 8
  for (size_t k = step; k < step + kSteps; ++k) {
    KeyBytes keys[N];
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      keys[n] = load_keys(tiles[n].levels + 64 * k);
      steps.step((k - step) * N + n);
    }
#pragma GCC unroll 16
    for (uint32_t m = 0; m < M; ++m) {
      const QueryWord q = query_word(queries + 4 * (k * M + m));
#pragma GCC unroll 4
      for (uint32_t n = 0; n < N; ++n) sums[m][n] = dot_keys(sums[m][n], keys[n], q);
    }
  }
}

// Words [begin, end) of the queries and of K. A word is four dimensions.
struct Words {
  uint32_t begin, end;
};

// Levels of several queries, the initial values of their sums, and their additional scales for a
// group of dimensions.
struct ScoredQueries {
  const int8_t* levels;
  const int32_t* minus_128_levels;
  const float* scales;
};

// Writes the scores of query m against a tile of K from their sums.
inline void write_scores(const ScoredQueries& q, uint32_t m, IntSums sums, const KeyTile& tile,
                         Words words, float* at) {
  const F32x16 sum = to_f32(end_sums(sums));
  const F32x16 scale = load(tile.scales);
  if (words.begin == 0) {
    store(at, mul(sum, scale));
  } else {
    store(at, fma(mul(sum, set1(q.scales[m])), scale, load(at)));
  }
}

// Computes the scores of M queries against N tiles for one group of dimensions, without the
// queries' scales. The first group sets the scores, and the others add to them. queries:
// [words][M][4]; scores: row m at m · kScoreStride, tile n at 16 n.
template <uint32_t M, uint32_t N>
inline void score_int8_tile(const ScoredQueries& q, const KeyTile* tiles, Words words, auto& ahead,
                            float* scores) {
  IntSums sums[M][N];
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) sums[m][n] = begin_keys(q.minus_128_levels[m]);
  }
  uint32_t word = words.begin;
  for (; word + 8 <= words.end; word += 8) add_keys<8>(q.levels, tiles, word, ahead, sums);
  for (; word < words.end; ++word) add_keys<1>(q.levels, tiles, word, ahead, sums);
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      write_scores(q, m, sums[m][n], tiles[n], words, scores + m * kScoreStride + n * kLanes);
    }
  }
}

template <uint32_t M>
inline void score_int8_tiles(const ScoredQueries& q, const KeyTile* tiles, uint32_t n_tiles,
                             Words words, auto& ahead, float* scores) {
  constexpr uint32_t kMost = kInt8Vectors<M>;
  uint32_t t = 0;
  for (; t + kMost <= n_tiles; t += kMost) {
    score_int8_tile<M, kMost>(q, tiles + t, words, ahead, scores + t * kLanes);
  }
  for (; t < n_tiles; ++t) {
    score_int8_tile<M, 1>(q, tiles + t, words, ahead, scores + t * kLanes);
  }
}

// The same with the tiles of a matrix unit. queries: [M][row_bytes]
template <uint32_t M, class Tiles>
inline void score_by_tiles(const ScoredQueries& q, size_t row_bytes, const KeyTile* tiles,
                           uint32_t n_tiles, Words words, auto& ahead, float* scores) {
  constexpr uint32_t N = Tiles::kColumns;
  for (uint32_t t = 0; t < n_tiles; t += N) {
    const uint32_t n_columns = lesser(N, n_tiles - t);
    const uint8_t* keys[N];  // columns that are not needed repeat the first
    for (uint32_t n = 0; n < N; ++n) {
      keys[n] = tiles[t + (n < n_columns ? n : 0)].levels + size_t{64} * words.begin;
    }
    alignas(64) typename Tiles::Sums sums;
    const uint32_t n_steps = 4 * (words.end - words.begin) / Tiles::kDims;
    Tiles::multiply_keys(q.levels + 4 * words.begin, row_bytes, keys, n_steps, sums);
    auto steps = ahead.take(kTileSteps * N);
    for (uint32_t n = 0; n < n_columns; ++n) {
#pragma GCC unroll 8
      for (uint32_t m = 0; m < M; ++m) {
        if (m < kTileSteps) steps.step(m);
        const IntSums start = begin_keys(q.minus_128_levels[m]);
        write_scores(q, m, Tiles::add(Tiles::load(sums, n, m), start), tiles[t + n], words,
                     scores + m * kScoreStride + (t + n) * kLanes);
      }
    }
  }
}

template <class Tiles, uint32_t M>
inline void score_rows(const ScoredQueries& q, const KvBlockLayout& layout, const KeyTile* tiles,
                       uint32_t n_tiles, Words words, auto& ahead, float* scores) {
  if constexpr (M <= Tiles::kRows && M >= Tiles::kLeastRows) {
    if (scores_by_tiles(layout, M)) {
      return score_by_tiles<M, Tiles>(q, key_dims(layout), tiles, n_tiles, words, ahead, scores);
    }
  }
  score_int8_tiles<M>(q, tiles, n_tiles, words, ahead, scores);
}

// Computes the scores of a chunk against some tokens of the split, for one group of dimensions.
inline void score_int8_group(const Block& block, Chunk chunk, Range split, Range tokens,
                             const LevelSplit& levels, uint32_t group, auto& ahead) {
  const KvBlockLayout& layout = block.task.layout;
  const uint32_t dims = key_dims(layout);
  const size_t tile_bytes = size_t{dims} * kLanes;
  const uint32_t group_words = (layout.key_group_dims() + 3) / 4;
  const Words words = {group * group_words, lesser((group + 1) * group_words, dims / 4)};
  const Range seen = tiles_of(common(block.visible_to_any(chunk), tokens));
  const uint32_t first_tile = split.begin / kLanes;
  KeyTile tiles[kSplitTokens / kLanes];
  for (uint32_t t = seen.begin - first_tile; t < seen.end - first_tile; ++t) {
    const uint32_t page = t / kTilesPerPage;
    const size_t offset = t % kTilesPerPage * tile_bytes;
    tiles[t - (seen.begin - first_tile)] = {
        .levels = levels.keys[page] + offset,
        .scales = levels.key_scales + group * kSplitTokens + t * kLanes};
  }
  const ScoredQueries queries = {
      .levels = reinterpret_cast<const int8_t*>(block.queries) + size_t{chunk.begin} * dims,
      .minus_128_levels = block.minus_128_levels[group] + chunk.begin,
      .scales = block.group_scale[group] + chunk.begin};
  const uint32_t n_tiles = seen.end - seen.begin;
  float* scores = block.scores_of(chunk) + (seen.begin - first_tile) * kLanes;
  with_count<kInt8TileRows>(chunk.size(), [&](auto m) {
    score_rows<MatrixTiles, m.value>(queries, layout, tiles, n_tiles, words, ahead, scores);
  });
}

#include "backend/cpu/attention/attention_int8_weights.inl"

#include "backend/cpu/attention/attention_int8_values.inl"

// Returns the blocks of sixteen dimensions of V that share a scale.
inline Range blocks_of_group(const Block& block, uint32_t group) {
  const KvBlockLayout& layout = block.task.layout;
  const uint32_t n_blocks = blocks_of_16(layout.group_dims(layout.value_type()));
  return {group * n_blocks, lesser((group + 1) * n_blocks, block.n_dim_blocks)};
}

// Returns the pages [begin, end) of a split that contain some tokens of it.
inline Range pages_of(Range split, Range tokens) {
  const uint32_t first = split.begin / kPageTokens;
  return {tokens.begin / kPageTokens - first, (tokens.end - 1) / kPageTokens + 1 - first};
}

// Return the number of steps of ReadAhead in the scores of a split's pages, in their weights and in
// their sums.
inline size_t score_steps(const Block& block, Range pages) {
  const size_t n_tokens = size_t{pages.end - pages.begin} * kPageTokens;
  if (uses_tiles(block.largest_chunk())) return n_tokens / kLanes * kTileSteps * block.n_chunks;
  return n_tokens * key_dims(block.task.layout) / 64 * block.n_chunks;
}
inline size_t weight_steps(const Block& block, Range pages) {
  return size_t{pages.end - pages.begin} * kPageTokens / kLanes * kWeightSteps * block.n_pairs;
}
inline size_t sum_steps(const Block& block, Range pages) {
  const size_t n_tokens = size_t{pages.end - pages.begin} * kPageTokens;
  const size_t n = n_tokens * value_dims(block.task.layout) / 64 * block.n_chunks;
  return uses_tiles(block.largest_chunk()) ? n * kTileSteps / kLanes : n;
}

// Converts the scores of a chunk to the split's maxima, totals and sums.
inline void weigh_int8_chunk(const Block& block, Chunk chunk, Range split, Range pages,
                             const LevelSplit& levels, auto& ahead) {
  const uint32_t n_groups = block.task.layout.n_value_groups();
  ScoreRow rows[kInt8TileRows];
  ChunkLevels weights;
  if (n_groups == 1) {
    weigh_int8_scores(block, chunk, split, pages, levels.value_scales, rows, ahead, weights);
    weigh_int8_values(block, chunk, levels, pages, weights, blocks_of_group(block, 0), ahead);
    return;
  }
  weigh_int8_scores(block, chunk, split, pages, nullptr, rows, ahead, weights);
  for (uint32_t g = 0; g < n_groups; ++g) {
    weights = weigh_int8_group(block, chunk, rows, pages, levels.value_scales + g * kSplitTokens);
    weigh_int8_values(block, chunk, levels, pages, weights, blocks_of_group(block, g), ahead);
  }
}

// Reads K and V of the next split ahead.
template <class Tiles>
inline void attend_int8_chunks(const Block& block, Range split) {
  [[maybe_unused]] const Tiles tiles;
  const KvBlockLayout& layout = block.task.layout;
  const Range all = pages_of(split, common(block.visible_to_any(), split));
  const LevelSplit levels = load_levels(block, split, all);
  PageRuns keys = {block.ahead.pages, block.ahead.n_pages, block.ahead.block_offset,
                   layout.head_bytes()};
  PageRuns values;
  if (layout.has_values_apart()) {
    values = keys;
    keys.n_bytes = layout.k_bytes();
    values.offset += layout.value_offset();
    values.n_bytes = layout.v_bytes();
  }
  const size_t n_steps = score_steps(block, all) + weight_steps(block, all) + sum_steps(block, all);
  ReadAhead<ReadOrder::kByPages> ahead(keys, values, n_steps,
                                       reinterpret_cast<const std::byte*>(block.scores));
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    const Range seen = common(block.visible_to_any(chunk), split);
    if (seen.empty()) continue;
    for (uint32_t g = 0; g < layout.n_key_groups(); ++g) {
      score_int8_group(block, chunk, split, seen, levels, g, ahead);
    }
    weigh_int8_chunk(block, chunk, split, pages_of(split, seen), levels, ahead);
  }
}

// Computes a split of int8 K and V for several KV heads of one row. K of all heads is read page by
// page, in the order of addresses, in which a core reads fastest. Meanwhile V is read ahead, then K
// of the next split.
template <class Tiles>
inline void attend_int8_heads(const Block& block, Range split) {
  [[maybe_unused]] const Tiles tiles;
  const AttendTask& task = block.task;
  const KvBlockLayout& layout = task.layout;
  const uint32_t chunks_per_head = block.n_chunks / task.n_kv_heads;
  const std::byte* const* table = task.pages + split.begin / kPageTokens;
  const Range seen = common(block.visible_to_any(), split);
  const Range pages = pages_of(split, seen);
  const auto* idle = reinterpret_cast<const std::byte*>(block.scores);
  const size_t head_bytes = layout.head_stride();  // of K; as many as of V
  const size_t run_bytes = task.n_kv_heads * head_bytes;
  const size_t first_key = task.block_offset;
  const size_t first_value = first_key + layout.value_offset();
  LevelSplit levels = level_split(block);

  const PageRuns values = {table + pages.begin, pages.end - pages.begin, first_value, run_bytes};
  ReadAhead<ReadOrder::kAscending> values_ahead(values, {}, score_steps(block, pages), idle);
  for (uint32_t page = pages.begin; page < pages.end; ++page) {
    const uint32_t begin = split.begin + page * kPageTokens;
    const Range tokens = common(seen, {begin, begin + kPageTokens});
    for (uint32_t i = 0; i < block.n_chunks; ++i) {
      const size_t key = first_key + i / chunks_per_head * head_bytes;
      take_int8_keys(layout, page, table[page] + key, levels);
      score_int8_group(block, block.chunk(i), split, tokens, levels, 0, values_ahead);
    }
  }
  values_ahead.finish();

  const PageRuns keys = {block.ahead.pages, block.ahead.n_pages, block.ahead.block_offset,
                         run_bytes};
  ReadAhead<ReadOrder::kAscending> keys_ahead(
      keys, {}, weight_steps(block, pages) / 2 + sum_steps(block, pages), idle);
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const size_t value = first_value + i / chunks_per_head * head_bytes;
    for (uint32_t page = pages.begin; page < pages.end; ++page) {
      take_int8_values(layout, page, table[page] + value, levels);
    }
    weigh_int8_chunk(block, block.chunk(i), split, pages, levels, keys_ahead);
  }
  keys_ahead.finish();
}

template <class Tiles>
inline void attend_int8_tiles(const Block& block, Range split) {
  if (block.task.n_kv_heads > 1) {
    attend_int8_heads<Tiles>(block, split);
  } else {
    attend_int8_chunks<Tiles>(block, split);
  }
}

inline void attend_int8_split(const Block& block, Range split) {
  if (uses_tiles(block.largest_chunk())) {
    attend_int8_tiles<MatrixTiles>(block, split);
  } else {
    attend_int8_tiles<NoMatrixTiles>(block, split);
  }
}
