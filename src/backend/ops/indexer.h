#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/ops/attention.h"
#include "tensor/kv_type.h"

namespace kvik {

// An indexer selects the tokens that a row of attention reads: those with the highest scores,
//   score[t] = Σh weight[h] · max(q[h] · k[t], 0),
// where k[t] is the index key of token t (DeepSeek-V3.2, 2025), or blocks of tokens, by each head h
// on its own:
//   score[h][b] = max of q[h] · k[t] over the tokens t of block b up to the row's own
// (MiniMax Sparse Attention, 2026). A page holds the index keys of its tokens for each layer with
// an indexer, as [32 / 16][dim][16 tokens] in f32 or bf16; with keys of blocks, which are at most
// 16 in a page, as [dim][blocks].

// The index keys of one layer, and the sequences that they belong to. Keys have no open pages.
struct IndexTarget {
  size_t offset = 0;  // of the layer's index keys in a page
  KvType type = KvType::kF32;
  uint32_t dim = 0;
  std::span<const KvRun> runs;
  // A key is that of a block of this many tokens (IndexShape), 1 or a divisor of kPageTokens.
  uint32_t key_tokens = 1;

  uint32_t page_keys() const { return kPageTokens / key_tokens; }
};

// Returns the type of the index keys in pages of that type: levels of 8 or 4 bits would change
// which tokens are selected.
constexpr KvType index_key_type(KvType type) {
  return type == KvType::kF32 ? KvType::kF32 : KvType::kBF16;
}
// Returns the bytes of one token's index key.
constexpr uint64_t index_key_bytes(KvType type, uint64_t dim) {
  return row_bytes(index_key_type(type), dim);
}

// With keys of blocks, n_top blocks are selected among those of which a row could attend to all
// tokens. The list of a row has one more place, for the block of its own token if the row could not
// attend to all of it; otherwise kNoBlock is there. There is no window then.
struct IndexShape {
  uint32_t n_heads = 0;
  uint32_t n_top = 0;   // number of tokens or blocks to select
  uint32_t window = 0;  // as in AttentionShape
  // If not 0, each head selects blocks of so many tokens; there must be no window.
  uint32_t block_tokens = 0;
  uint32_t n_local = 0;  // number of last blocks that are selected whatever their scores are

  bool is_per_head() const { return block_tokens != 0; }
  // Return the fields of SelectedTokens for such a selection.
  uint32_t n_lists() const { return is_per_head() ? n_heads : 1; }
  uint32_t n_budget() const { return is_per_head() ? n_top * block_tokens : n_top; }
};

// Blocks of tokens that rows attend to instead of all tokens that they could attend to. Block b are
// the tokens [b · block_tokens, (b + 1) · block_tokens) as far as the row could attend to them. Row
// i has n_lists lists of n_top blocks, ascending, from blocks[rows[i] · n_lists · n_top] on. In a
// list with fewer blocks, kNoBlock fills the rest. A row that could attend to at most n_budget
// tokens attends to all of them, and its lists are undefined.
//
// Latent K needs a single list of blocks that lie in a page each. Other K and V have one list for
// each KV head, or a single one for all of them.
struct SelectedTokens {
  static constexpr uint32_t kNoBlock = UINT32_MAX;

  const uint32_t* blocks = nullptr;  // in the backend's memory
  uint32_t n_top = 0;
  uint32_t n_budget = 0;
  std::span<const uint32_t> rows;
  uint32_t block_tokens = 1;
  uint32_t n_lists = 1;
};

// Returns the number of tokens that a row could attend to.
constexpr uint32_t n_visible(uint32_t position, uint32_t window) {
  return window != 0 && position + 1 > window ? window : position + 1;
}

}  // namespace kvik
