// The attention kernels of kernels.h. Included inside an instruction set's namespace, after
// vec_math.inl. The includer says how large a register tile is: kTileRows and kTileRegisters.
//
// A pair is one query row with one head of the group. Pairs are worked on in blocks, so that a page
// that was read serves all of them; inside a block in chunks of at most kTileRows, the M of the
// register tiles. The arithmetic of a pair knows nothing of its block or chunk:
//
//   tokens are cut into splits at multiples of kSplitTokens; in each split
//     score[t] = scale · Σd q[d] · k[d][t]      chain over d ascending, then the soft cap
//     top      = max of the visible scores
//     p[t]     = exp(score[t] − top)            0 where t is not visible
//     total    = Σt p[t]                        in lanes t mod 16 ascending, then sum_lanes
//     sum[d]   = Σt p[t] · v[t][d]              chain over the visible t ascending
//   splits are merged ascending (merge_split), and out[d] = sum[d] / total.
//
// Tokens that a pair does not see take part in nothing: neither their K nor their V, whatever it
// holds, can change a bit; pages without a visible token are not touched.

namespace {

constexpr uint32_t kSplitTokens = 512;
constexpr uint32_t kBlockPairs = 48;
// Pages walked through before the next chunk of pairs reads them again, from the cache.
constexpr uint32_t kStripPages = 2;
constexpr uint32_t kTilesPerPage = kPageTokens / kLanes;
constexpr uint32_t kStripTiles = kStripPages * kTilesPerPage;
// Not a power of two: rows of a tile would compete for the same sets of the cache.
constexpr uint32_t kScoreStride = kSplitTokens + kLanes;

#include "backend/cpu/attention_product.inl"

// Elements of one head's K ([2][head_dim][16 tokens]) and V ([D / 16][32 tokens][16 of d]).
inline size_t k_element(uint32_t head_dim, uint32_t token, uint32_t d) {
  return (size_t{token / kLanes} * head_dim + d) * kLanes + token % kLanes;
}
inline size_t v_element(uint32_t token, uint32_t d) {
  return (size_t{d / kLanes} * kPageTokens + token) * kLanes + d % kLanes;
}

inline uint32_t lesser(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t greater(uint32_t a, uint32_t b) { return a > b ? a : b; }
inline uint32_t blocks_of_16(uint32_t n) { return (n + kLanes - 1) / kLanes; }

inline void store_elements(float* p, F32x16 v) { store(p, v); }
inline void store_elements(uint16_t* p, F32x16 v) { store_bf16(p, v); }

template <class Element>
inline void write_elements(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                           const float* k, const float* v) {
  auto* k_out = reinterpret_cast<Element*>(block);
  auto* v_out = reinterpret_cast<Element*>(block + layout.k_bytes());
  const uint32_t head_dim = layout.head_dim;
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    const uint32_t n = lesser(kLanes, head_dim - d);
    Element row[kLanes];
    store_elements(row, load_first(k + d, n));
    for (uint32_t i = 0; i < n; ++i) k_out[k_element(head_dim, token, d + i)] = row[i];
    store_elements(v_out + v_element(token, d), load_first(v + d, n));
  }
}

inline void write_token(const KvBlockLayout& layout, std::byte* block, uint32_t token_in_page,
                        const float* k, const float* v) {
  if (layout.type == KvType::kF32) {
    write_elements<float>(layout, block, token_in_page, k, v);
  } else {
    write_elements<uint16_t>(layout, block, token_in_page, k, v);
  }
}

// Tokens, or tiles of 16 tokens, [begin, end) of the sequence.
struct Range {
  uint32_t begin, end;
  bool empty() const { return begin >= end; }
};
inline Range common(Range a, Range b) { return {greater(a.begin, b.begin), lesser(a.end, b.end)}; }
inline Range tiles_of(Range tokens) { return {tokens.begin / kLanes, blocks_of_16(tokens.end)}; }

// Pairs [begin, end) of a block that share register tiles.
struct Chunk {
  uint32_t begin, end;
  uint32_t size() const { return end - begin; }
};

// Up to kBlockPairs pairs, and what is known of them so far. Floats live in the task's scratch.
struct Block {
  const AttendTask& task;
  uint32_t first_pair;
  uint32_t n_pairs;
  uint32_t n_chunks;
  uint32_t n_dim_blocks;
  float* queries;     // chunk after chunk, each [head_dim][pairs of the chunk]
  float* scores;      // [pair] at kScoreStride, one split
  float* sums;        // [pair][16 · n_dim_blocks]
  float* split_sums;  // likewise, one split
  Range visible[kBlockPairs] = {};
  float top[kBlockPairs] = {}, total[kBlockPairs] = {};
  float split_top[kBlockPairs] = {}, split_total[kBlockPairs] = {};

  uint32_t row(uint32_t pair) const { return (first_pair + pair) / task.group; }
  uint32_t head(uint32_t pair) const { return (first_pair + pair) % task.group; }
  Chunk chunk(uint32_t i) const { return {n_pairs * i / n_chunks, n_pairs * (i + 1) / n_chunks}; }
  // What any pair of a chunk sees: rows are in ascending order.
  Range seen_by_any(Chunk c) const { return {visible[c.begin].begin, visible[c.end - 1].end}; }
  Range seen_by_all(Chunk c) const { return {visible[c.end - 1].begin, visible[c.begin].end}; }
  uint32_t padded_dim() const { return n_dim_blocks * kLanes; }
};

inline Range visible_tokens(const AttendTask& task, uint32_t position) {
  const uint32_t end = position + 1;
  return {task.window != 0 && end > task.window ? end - task.window : 0, end};
}

inline void gather_queries(const Block& block) {
  const AttendTask& task = block.task;
  const uint32_t head_dim = task.layout.head_dim;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    float* out = block.queries + size_t{chunk.begin} * head_dim;
    for (uint32_t pair = chunk.begin; pair < chunk.end; ++pair) {
      const float* q =
          task.q + size_t{block.row(pair)} * task.q_stride + size_t{block.head(pair)} * head_dim;
      for (uint32_t d = 0; d < head_dim; ++d) {
        out[size_t{d} * chunk.size() + (pair - chunk.begin)] = q[d];
      }
    }
  }
}

template <class Element>
inline const Element* keys_of(const AttendTask& task, uint32_t page) {
  return reinterpret_cast<const Element*>(task.pages[page] + task.block_offset);
}
template <class Element>
inline const Element* values_of(const AttendTask& task, uint32_t page) {
  return reinterpret_cast<const Element*>(task.pages[page] + task.block_offset +
                                          task.layout.k_bytes());
}

// K of tile t of the sequence; after the last tile of this split, where its V begins.
template <class Element>
inline const Element* tile_or_values(const Block& block, Range split_tiles, uint32_t t) {
  const size_t tile = size_t{block.task.layout.head_dim} * kLanes;
  if (t < split_tiles.end) {
    return keys_of<Element>(block.task, t / kTilesPerPage) + t % kTilesPerPage * tile;
  }
  const uint32_t behind = lesser(t - split_tiles.end, kTilesPerPage - 1);
  return values_of<Element>(block.task, split_tiles.begin / kTilesPerPage) + behind * tile;
}

// What to fetch while the V of a page is read: V one strip on, or the K of the next split.
template <class Element>
inline const Element* to_read_after(const Block& block, Range split, uint32_t page) {
  const uint32_t last = (block.visible[block.n_pairs - 1].end - 1) / kPageTokens;
  const uint32_t next = lesser(page + kStripPages, last);
  return next * kPageTokens < split.end ? values_of<Element>(block.task, next)
                                        : keys_of<Element>(block.task, next);
}

// Raw scores of all pairs against the tiles of a split that they see.
template <class Element>
inline void score_split(const Block& block, Range split) {
  const AttendTask& task = block.task;
  const uint32_t head_dim = task.layout.head_dim;
  const Range all = tiles_of(common(block.seen_by_any({0, block.n_pairs}), split));
  for (uint32_t strip = all.begin; strip < all.end; strip += kStripTiles) {
    const Range strip_tiles = {strip, lesser(strip + kStripTiles, all.end)};
    const Element* tiles[kStripTiles + kMostTileVectors];
    for (uint32_t i = 0; i < kStripTiles + kMostTileVectors; ++i) {
      tiles[i] = tile_or_values<Element>(block, all, strip + i);
    }
    for (uint32_t i = 0; i < block.n_chunks; ++i) {
      const Chunk chunk = block.chunk(i);
      const Range seen = common(strip_tiles, tiles_of(block.seen_by_any(chunk)));
      if (seen.empty()) continue;
      float* scores =
          block.scores + size_t{chunk.begin} * kScoreStride + (seen.begin * kLanes - split.begin);
      with_count<kTileRows>(chunk.size(), [&](auto m) {
        score_tiles<m.value>(block.queries + size_t{chunk.begin} * head_dim,
                             tiles + (seen.begin - strip), seen.end - seen.begin, head_dim,
                             task.scale, scores);
      });
    }
  }
}

// Turns the scores [begin, end) of one pair into weights; sets split_top and split_total.
inline void weigh_scores(Block& block, uint32_t pair, Range seen) {
  float* scores = block.scores + size_t{pair} * kScoreStride;
  const float cap = block.task.soft_cap;
  const F32x16 unseen = set1(-__builtin_inff());
  const uint32_t first = seen.begin / kLanes * kLanes;
  F32x16 most = unseen;
  F32x16 other = unseen;  // two chains, as a max takes longer than the rest of a step
  for (uint32_t t = first; t < seen.end; t += kLanes) {
    F32x16 s = load(scores + t);
    if (cap != 0.0f) s = soft_capped(s, set1(cap));
    if (t < seen.begin || t + kLanes > seen.end) {
      s = select_range(greater(t, seen.begin) - t, lesser(t + kLanes, seen.end) - t, s, unseen);
    }
    if (cap != 0.0f || t < seen.begin || t + kLanes > seen.end) store(scores + t, s);
    const F32x16 newer = max(s, other);
    other = most;
    most = newer;
  }
  const float top = max_lanes(max(most, other));
  F32x16 total = zero();
  for (uint32_t t = first; t < seen.end; t += kLanes) {
    const F32x16 p = exp_up_to_88(sub(load(scores + t), set1(top)));
    store(scores + t, p);
    total = add(total, p);
  }
  block.split_top[pair] = top;
  block.split_total[pair] = sum_lanes(total);
}

// Adds tokens [begin, end), all in one strip and seen by all pairs of the chunk, to split_sums.
template <class Element>
inline void weigh_tokens(const Block& block, Chunk chunk, Range split, Range tokens) {
  if (tokens.empty()) return;
  ValueRun<Element> runs[kStripPages];
  uint32_t n_runs = 0;
  for (uint32_t begin = tokens.begin; begin < tokens.end; ++n_runs) {
    const uint32_t page = begin / kPageTokens;
    const uint32_t end = lesser((page + 1) * kPageTokens, tokens.end);
    const size_t offset = v_element(begin % kPageTokens, 0);
    runs[n_runs] = {values_of<Element>(block.task, page) + offset,
                    to_read_after<Element>(block, split, page) + offset, end - begin};
    begin = end;
  }
  const float* weights =
      block.scores + size_t{chunk.begin} * kScoreStride + (tokens.begin - split.begin);
  with_count<kTileRows>(chunk.size(), [&](auto m) {
    weigh_blocks<m.value>(weights, runs, n_runs, block.n_dim_blocks,
                          block.split_sums + size_t{chunk.begin} * block.padded_dim());
  });
}

// weigh_tokens for what each pair sees of `tokens`; pairs of one row see the same.
template <class Element>
inline void weigh_row_by_row(const Block& block, Chunk chunk, Range split, Range tokens) {
  for (uint32_t pair = chunk.begin; pair < chunk.end;) {
    Chunk row = {pair, pair + 1};
    while (row.end < chunk.end && block.row(row.end) == block.row(pair)) ++row.end;
    weigh_tokens<Element>(block, row, split, common(tokens, block.visible[pair]));
    pair = row.end;
  }
}

template <class Element>
inline void weigh_split(const Block& block, Range split) {
  const Range all = common(block.seen_by_any({0, block.n_pairs}), split);
  for (uint32_t begin = all.begin; begin < all.end;) {
    constexpr uint32_t kStripTokens = kStripPages * kPageTokens;
    const Range strip = {begin, lesser((begin / kStripTokens + 1) * kStripTokens, all.end)};
    for (uint32_t i = 0; i < block.n_chunks; ++i) {
      const Chunk chunk = block.chunk(i);
      const Range shared = common(strip, block.seen_by_all(chunk));
      if (shared.empty()) {
        weigh_row_by_row<Element>(block, chunk, split, strip);
      } else {
        weigh_row_by_row<Element>(block, chunk, split, {strip.begin, shared.begin});
        weigh_tokens<Element>(block, chunk, split, shared);
        weigh_row_by_row<Element>(block, chunk, split, {shared.end, strip.end});
      }
    }
    begin = strip.end;
  }
}

// Takes a pair's split into what it has: the first as it is, a later one by
//   top' = max(top, top_s), a = exp(top − top'), b = exp(top_s − top'),
//   sum' = fma(sum, a, sum_s · b), and total' likewise.
inline void merge_split(Block& block, uint32_t pair, bool is_first) {
  float* sums = block.sums + size_t{pair} * block.padded_dim();
  const float* split_sums = block.split_sums + size_t{pair} * block.padded_dim();
  if (is_first) {
    for (uint32_t d = 0; d < block.padded_dim(); d += kLanes) store(sums + d, load(split_sums + d));
    block.top[pair] = block.split_top[pair];
    block.total[pair] = block.split_total[pair];
    return;
  }
  const F32x16 top = set1(block.top[pair]);
  const F32x16 split_top = set1(block.split_top[pair]);
  const F32x16 new_top = max(top, split_top);
  const F32x16 a = exp(sub(top, new_top));
  const F32x16 b = exp(sub(split_top, new_top));
  for (uint32_t d = 0; d < block.padded_dim(); d += kLanes) {
    store(sums + d, fma(load(sums + d), a, mul(load(split_sums + d), b)));
  }
  const F32x16 total = fma(set1(block.total[pair]), a, mul(set1(block.split_total[pair]), b));
  store_first(&block.total[pair], total, 1);
  store_first(&block.top[pair], new_top, 1);
}

template <class Element>
inline void attend_split(Block& block, Range split) {
  score_split<Element>(block, split);
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    const Range seen = common(block.visible[pair], split);
    if (seen.empty()) continue;
    weigh_scores(block, pair, {seen.begin - split.begin, seen.end - split.begin});
    float* sums = block.split_sums + size_t{pair} * block.padded_dim();
    for (uint32_t d = 0; d < block.padded_dim(); d += kLanes) store(sums + d, zero());
  }
  weigh_split<Element>(block, split);
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    const Range seen = common(block.visible[pair], split);
    if (!seen.empty()) merge_split(block, pair, seen.begin == block.visible[pair].begin);
  }
}

inline void write_out(const Block& block) {
  const AttendTask& task = block.task;
  const uint32_t head_dim = task.layout.head_dim;
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    const float* sums = block.sums + size_t{pair} * block.padded_dim();
    float* out =
        task.out + size_t{block.row(pair)} * task.out_stride + size_t{block.head(pair)} * head_dim;
    for (uint32_t d = 0; d < head_dim; d += kLanes) {
      store_first(out + d, div(load(sums + d), set1(block.total[pair])),
                  lesser(kLanes, head_dim - d));
    }
  }
}

inline void attend_block(Block& block) {
  const AttendTask& task = block.task;
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    block.visible[pair] = visible_tokens(task, task.first_position + block.row(pair));
  }
  gather_queries(block);
  const Range all = block.seen_by_any({0, block.n_pairs});
  for (uint32_t s = all.begin / kSplitTokens; s * kSplitTokens < all.end; ++s) {
    const Range split = {s * kSplitTokens, (s + 1) * kSplitTokens};
    if (task.layout.type == KvType::kF32) {
      attend_split<float>(block, split);
    } else {
      attend_split<uint16_t>(block, split);
    }
  }
  write_out(block);
}

inline void attend(const AttendTask& task) {
  const uint32_t n_dim_blocks = blocks_of_16(task.layout.head_dim);
  const size_t n_sums = size_t{kBlockPairs} * n_dim_blocks * kLanes;
  float* scores = task.scratch;
  float* sums = scores + size_t{kBlockPairs} * kScoreStride;
  const uint32_t n_pairs = task.n_rows * task.group;
  for (uint32_t first = 0; first < n_pairs; first += kBlockPairs) {
    const uint32_t n = lesser(kBlockPairs, n_pairs - first);
    Block block = {.task = task,
                   .first_pair = first,
                   .n_pairs = n,
                   .n_chunks = (n + kTileRows - 1) / kTileRows,
                   .n_dim_blocks = n_dim_blocks,
                   .queries = sums + 2 * n_sums,
                   .scores = scores,
                   .sums = sums,
                   .split_sums = sums + n_sums};
    attend_block(block);
  }
}

// Scores, sums, sums of one split, queries. The group does not matter: blocks have their size.
inline size_t attend_scratch_floats(uint32_t head_dim, uint32_t) {
  const size_t n_sums = size_t{kBlockPairs} * blocks_of_16(head_dim) * kLanes;
  return size_t{kBlockPairs} * kScoreStride + 3 * n_sums;
}

}  // namespace

const AttentionKernels kAttentionKernels = {
    .write_token = write_token,
    .attend = attend,
    .scratch_floats = attend_scratch_floats,
};
