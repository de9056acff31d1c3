// Attention kernels of kernels.h. Included inside the namespace of an instruction set, after its
// vector functions. tiles.h defines the size of a register tile: kTileRows and kTileRegisters, and
// kInt8TileRows and kInt8TileRegisters for quantized pages.
//
// A pair is one query row with one query head of the group. Pairs are processed in blocks, so that
// a page that has been read serves all of them. Within a block they are processed in chunks of at
// most kTileRows pairs, which are the rows of the register tiles. The arithmetic of a pair does not
// depend on its block or chunk. It is as follows for pages of floats; attention_int8.inl describes
// that of quantized pages.
//
// Tokens are cut into splits at multiples of kSplitTokens. In each split:
//   score[t] = scale · Σd q[d] · k[d][t]      chain over d ascending, then the soft cap
//   top      = max of the visible scores
//   p[t]     = exp(score[t] − top)            0 if t is not visible
//   total    = Σt p[t]                        in lanes t mod 16 ascending, then sum_lanes
//   sum[d]   = Σt p[t] · v[t][d]              chain over the visible t ascending
// Splits are merged in ascending order (merge_block_split), then an attention sink joins the
// softmax (add_sink), and out[d] = sum[d] / total.
//
// If a row has an open page, the splits end where that page begins, and the open page is merged
// after them (attention_open.inl).
//
// Tokens outside a pair's range have no effect. Neither their K nor their V can change a bit,
// whatever they contain, and pages without a visible token are not accessed. Tokens of the range
// that a row's masks exclude have the weight zero, as if they were not visible.

#include "backend/cpu/isa/vec_math.inl"

namespace {

// Pairs per block.
constexpr uint32_t kBlockPairs = 48;
// Pages per strip. All chunks of a block process a strip, which stays in the cache, before the next
// one is read.
constexpr uint32_t kStripPages = 2;
constexpr uint32_t kSplitPages = kSplitTokens / kPageTokens;
constexpr uint32_t kTilesPerPage = kPageTokens / kLanes;
constexpr uint32_t kStripTiles = kStripPages * kTilesPerPage;
// Not a power of two, because the rows of a tile would then compete for the same cache sets.
constexpr uint32_t kScoreStride = kSplitTokens + kLanes;

inline uint32_t lesser(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t greater(uint32_t a, uint32_t b) { return a > b ? a : b; }
inline uint32_t blocks_of_16(uint32_t n) { return (n + kLanes - 1) / kLanes; }

// Returns the index of an element in one head's V, in f32 or bf16: [D / 16][32 tokens][16 of d].
inline size_t v_element(uint32_t token, uint32_t d) {
  return (size_t{d / kLanes} * kPageTokens + token) * kLanes + d % kLanes;
}

#include "backend/cpu/attention/attention_product.inl"

#include "backend/cpu/attention/attention_block.inl"

#include "backend/cpu/attention/attention_scores.inl"

#include "backend/cpu/attention/attention_values.inl"

#include "backend/cpu/attention/attention_rotate.inl"

#include "backend/cpu/attention/attention_levels.inl"

#include "backend/cpu/attention/attention_int8.inl"

#include "backend/cpu/attention/attention_channels.inl"

#include "backend/cpu/attention/attention_write.inl"

template <class Element>
inline void attend_float_split(Block& block, Range split) {
  score_split<Element>(block, split);
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    const Range seen = common(block.visible[pair], split);
    if (seen.empty()) continue;
    weigh_scores(block, pair, {seen.begin - split.begin, seen.end - split.begin},
                 block.masks(pair, split));
    float* sums = block.split.sums + size_t{pair} * block.padded_dim();
    for (uint32_t d = 0; d < block.padded_dim(); d += kLanes) store(sums + d, zero());
  }
  weigh_split<Element>(block, split);
}

inline Range tokens_of_split(uint32_t split) {
  return {split * kSplitTokens, (split + 1) * kSplitTokens};
}

// Computes the partial results of each pair that attends to the split, and writes them to
// block.split.
inline void attend_block_split(Block& block, uint32_t split) {
  switch (block.task.layout.type) {
    case KvType::kF32:
      return attend_float_split<float>(block, tokens_of_split(split));
    case KvType::kBF16:
      return attend_float_split<uint16_t>(block, tokens_of_split(split));
    case KvType::kInt8:
    case KvType::kInt8Int4:
    case KvType::kInt4:
      return attend_int8_split(block, tokens_of_split(split));
  }
}

// Factors and results of merging two partial results, by pair.
struct MergeFactors {
  float merged[kBlockPairs + kLanes], split[kBlockPairs + kLanes];
  float top[kBlockPairs + kLanes], total[kBlockPairs + kLanes];
};

// Processes sixteen pairs at a time. Pairs that have only one of the two results get factors too,
// which are not used.
inline void find_merge_factors(const Block& block, MergeFactors& out) {
  for (uint32_t pair = 0; pair < block.n_pairs; pair += kLanes) {
    const uint32_t n = lesser(kLanes, block.n_pairs - pair);
    const F32x16 top = load_first(block.merged.top + pair, n);
    const F32x16 split_top = load_first(block.split.top + pair, n);
    const F32x16 new_top = max(top, split_top);
    const F32x16 a = exp(sub(top, new_top));
    const F32x16 b = exp(sub(split_top, new_top));
    const F32x16 split_total = mul(load_first(block.split.total + pair, n), b);
    store(out.merged + pair, a);
    store(out.split + pair, b);
    store(out.top + pair, new_top);
    store(out.total + pair, fma(load_first(block.merged.total + pair, n), a, split_total));
  }
}

// Copies the results of the first split that a pair attends to.
inline void copy_first_split(const Block& block, uint32_t pair) {
  const Partial into = from_pair(block.merged, pair, block.padded_dim());
  const Partial from = from_pair(block.split, pair, block.padded_dim());
  for (uint32_t d = 0; d < block.padded_dim(); d += kLanes) {
    store(into.sums + d, load(from.sums + d));
  }
  *into.top = *from.top;
  *into.total = *from.total;
}

// Merges the results of a pair's next split with those of the splits before it:
//   top' = max(top, top_s), a = exp(top − top'), b = exp(top_s − top'),
//   sum' = fma(sum, a, sum_s · b), and total' likewise.
inline void merge_next_split(const Block& block, uint32_t pair, const MergeFactors& factors) {
  const Partial into = from_pair(block.merged, pair, block.padded_dim());
  const Partial from = from_pair(block.split, pair, block.padded_dim());
  const F32x16 a = set1(factors.merged[pair]);
  const F32x16 b = set1(factors.split[pair]);
  for (uint32_t d = 0; d < block.padded_dim(); d += kLanes) {
    store(into.sums + d, fma(load(into.sums + d), a, mul(load(from.sums + d), b)));
  }
  *into.top = factors.top[pair];
  *into.total = factors.total[pair];
}

// Merges the results of a split, block.split, into the merged results of each pair that attends to
// it.
inline void merge_block_split(const Block& block, uint32_t split) {
  MergeFactors factors;
  find_merge_factors(block, factors);
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    const Range seen = common(block.visible[pair], tokens_of_split(split));
    if (seen.empty()) continue;
    if (seen.begin == block.visible[pair].begin) {
      copy_first_split(block, pair);
    } else {
      merge_next_split(block, pair, factors);
    }
  }
}

#include "backend/cpu/attention/attention_open.inl"

// Factor for a pair's sums, and its new total, after an attention sink has joined the softmax. With
// top' = max(top, sink), the sums are multiplied by exp(top − top'), and the total becomes total ·
// exp(top − top') + exp(sink − top').
struct WithSink {
  float share, total;
};
inline WithSink add_sink(float sink, float top, float total) {
  const float most = sink > top ? sink : top;
  const float share = max_lanes(exp(set1(top - most)));
  return {share, total * share + max_lanes(exp(set1(sink - most)))};
}

inline void write_out(const Block& block) {
  const uint32_t value_dim = block.task.layout.value_dim();
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    const Partial merged = from_pair(block.merged, pair, block.padded_dim());
    float* out = block.out(pair);
    float total = *merged.total;
    const float* sums = merged.sums;
    float share = 1.0f;
    if (block.task.sinks) {
      const WithSink with_sink = add_sink(block.task.sinks[block.head(pair)], *merged.top, total);
      total = with_sink.total;
      share = with_sink.share;
    }
    if (has_rotated_sums(block)) {  // rotates V back
      rotate_head(sums, value_dim, block.spare);
      sums = block.spare;
      total *= double_rotation_factor(value_dim);
    }
    for (uint32_t d = 0; d < value_dim; d += kLanes) {
      const uint32_t n = lesser(kLanes, value_dim - d);
      const F32x16 sum = load_first(sums + d, n);
      store_first(out + d, div(share == 1.0f ? sum : mul(sum, set1(share)), set1(total)), n);
    }
  }
}

inline bool holds_levels(const KvBlockLayout& layout) { return is_quantized(layout.type); }

inline size_t spare_floats(uint32_t head_dim) {
  const size_t widened = size_t{kStripPages} * kPageTokens * blocks_of_16(head_dim) * kLanes;
  return widened > kInt8LevelFloats ? widened : kInt8LevelFloats;
}

inline size_t query_floats(const KvBlockLayout& layout) {
  return size_t{kBlockPairs} * round_up(layout.head_dim, 2 * kLanes);
}

// Calls function(block) for each block of the task. The scratch memory consists of the scores, the
// queries, two partial results, the scales, the spare floats and the unpacked levels, in this
// order.
template <class Function>
inline void for_blocks(const AttendTask& task, Function function) {
  const uint32_t n_dim_blocks = blocks_of_16(task.layout.value_dim());
  const uint32_t padded_dim = n_dim_blocks * kLanes;
  const size_t block_partial = size_t{kBlockPairs} * (padded_dim + 2);
  const uint32_t tile_rows = holds_levels(task.layout) ? kInt8TileRows : kTileRows;
  float* queries = task.scratch + size_t{kBlockPairs} * kScoreStride;
  float* partials = queries + query_floats(task.layout);
  float* scales = partials + 2 * block_partial;
  float* spare = scales + level_scale_floats();
  const uint32_t n_heads = task.n_kv_heads;
  const uint32_t n_pairs = task.n_rows * task.group;
  for (uint32_t first = 0; first < n_pairs; first += kBlockPairs) {
    const uint32_t n = lesser(kBlockPairs, n_pairs - first);
    Block block = {.task = task,
                   .first_pair = first,
                   .n_pairs = n,
                   .n_chunks = n_heads * ((n / n_heads + tile_rows - 1) / tile_rows),
                   .n_dim_blocks = n_dim_blocks,
                   .queries = queries,
                   .scores = task.scratch,
                   .spare = spare,
                   .scales = scales,
                   .unpacked = spare + spare_floats(task.layout.head_dim),
                   .merged = partial_at(partials, n, padded_dim),
                   .split = partial_at(partials + block_partial, n, padded_dim)};
    for (uint32_t pair = 0; pair < n; ++pair) {
      block.visible[pair] = visible_tokens(task, task.rows[block.row(pair)]);
    }
    function(block);
  }
}

// Returns the size of the scratch memory of for_blocks(). It does not depend on the group, because
// blocks have a fixed size.
inline size_t attend_scratch_floats(const KvBlockLayout& layout, uint32_t) {
  const uint32_t padded_dim = blocks_of_16(layout.value_dim()) * kLanes;
  return size_t{kBlockPairs} * kScoreStride + query_floats(layout) +
         size_t{2} * kBlockPairs * (padded_dim + 2) + level_scale_floats() +
         spare_floats(layout.head_dim) + kSplitPages * level_page_floats(layout);
}

inline void take_queries(Block& block) {
  if (holds_levels(block.task.layout)) {
    quantize_queries(block);
  } else {
    gather_queries(block);
  }
}

inline void attend(const AttendTask& task) {
  for_blocks(task, [&](Block& block) {
    const Range all = block.visible_to_any();
    if (!all.empty()) take_queries(block);
    const uint32_t n_pages = (all.end + kPageTokens - 1) / kPageTokens;
    for (uint32_t s = all.begin / kSplitTokens; s * kSplitTokens < all.end; ++s) {
      const uint32_t next = lesser((s + 1) * kSplitPages, n_pages);
      block.ahead = {task.pages + next, lesser(kSplitPages, n_pages - next), task.block_offset};
      attend_block_split(block, s);
      merge_block_split(block, s);
    }
    if (reads_open_pages(block)) merge_open_pages(block);
    write_out(block);
  });
}

// Several KV heads are processed as if all their query heads belonged to one.
inline void attend_heads_split(const AttendTask& task, uint32_t split, const KeysAhead& ahead,
                               float* partial) {
  AttendTask joined = task;
  joined.group *= task.n_kv_heads;
  for_blocks(joined, [&](Block& block) {
    if (common(block.visible_to_any(), tokens_of_split(split)).empty()) return;
    take_queries(block);
    block.ahead = ahead;
    attend_block_split(block, split);
    const uint32_t padded_dim = block.padded_dim();
    for (uint32_t head = 0; head < task.n_kv_heads; ++head) {
      const size_t floats = size_t{task.group} * (padded_dim + 2);
      const Partial to = partial_at(partial + head * floats, task.group, padded_dim);
      const Partial from = from_pair(block.split, head * task.group, padded_dim);
      __builtin_memcpy(to.sums, from.sums, task.group * padded_dim * sizeof(float));
      __builtin_memcpy(to.top, from.top, task.group * sizeof(float));
      __builtin_memcpy(to.total, from.total, task.group * sizeof(float));
    }
  });
}

inline void attend_split(const AttendTask& task, uint32_t split, const KeysAhead& ahead,
                         float* partial) {
  if (task.n_kv_heads > 1) return attend_heads_split(task, split, ahead, partial);
  const uint32_t n_pairs = task.n_rows * task.group;
  for_blocks(task, [&](Block& block) {
    if (common(block.visible_to_any(), tokens_of_split(split)).empty()) return;
    take_queries(block);
    block.ahead = ahead;
    block.split = from_pair(partial_at(partial, n_pairs, block.padded_dim()), block.first_pair,
                            block.padded_dim());
    attend_block_split(block, split);
  });
}

inline void merge_splits(const AttendTask& task, SplitRange splits, const SplitPart* parts,
                         float* merged) {
  for_blocks(task, [&](Block& block) {
    const uint32_t padded_dim = block.padded_dim();
    const auto of_block = [&](const SplitPart& part) {
      return from_pair(partial_at(part.floats, size_t{part.n_rows} * task.group, padded_dim),
                       part.first_row * task.group + block.first_pair, padded_dim);
    };
    const Partial room = block.split;
    block.merged = of_block({merged, task.n_rows, 0});
    for (uint32_t s = splits.begin; s < splits.end; ++s) {
      block.split = of_block(parts[s - splits.begin]);
      merge_block_split(block, s);
    }
    // A block that attends to no split is processed in every call, if other blocks of the task
    // attend to some. Its result is the same each time.
    const uint32_t end = block.visible_to_any().end;
    if (end > splits.end * kSplitTokens) return;
    if (end != 0 && end <= splits.begin * kSplitTokens) return;  // an earlier call wrote the output
    block.split = room;
    if (reads_open_pages(block)) merge_open_pages(block);
    write_out(block);
  });
}

}  // namespace

const AttentionKernels kAttentionKernels = {
    .write_token = write_token,
    .write_channels = write_channels,
    .change_basis = change_basis,
    .attend = attend,
    .attend_split = attend_split,
    .merge_splits = merge_splits,
    .scratch_floats = attend_scratch_floats,
};
