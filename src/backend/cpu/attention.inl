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

#include "backend/cpu/attention_product.inl"

#include "backend/cpu/attention_block.inl"

#include "backend/cpu/attention_scores.inl"

#include "backend/cpu/attention_values.inl"

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
                   .split_sums = sums + n_sums,
                   .widened = sums + 3 * n_sums};
    attend_block(block);
  }
}

// As `attend` cuts it. The group does not matter: blocks have their size.
inline size_t attend_scratch_floats(uint32_t head_dim, uint32_t) {
  const size_t padded_dim = blocks_of_16(head_dim) * kLanes;
  return kBlockPairs * kScoreStride + 3 * kBlockPairs * padded_dim +
         kStripPages * kPageTokens * padded_dim;
}

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

}  // namespace

const AttentionKernels kAttentionKernels = {
    .write_token = write_token,
    .attend = attend,
    .scratch_floats = attend_scratch_floats,
};
