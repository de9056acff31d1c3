#pragma once

#include <cstdint>

namespace kvik {

// Entries that a row attends to beside the tokens of its window (DeepSeek-V4, 2026). An entry is
// the mean of n_tokens values, each dimension weighted by the softmax of gates, then normed, with
// RoPE at the position of its first token. Values and gates are projections of x; a bias for each
// place among the n_tokens is added to the gates. A row attends to entries whose tokens are all at
// or before it.
struct EntriesConfig {
  uint32_t n_tokens = 0;  // tokens of an entry; 0: there are no entries
  // An entry is computed from the tokens of the entry before, too. Values and gates of a token have
  // two parts: the first for the next entry, the second for its own.
  bool overlaps = false;
  // An indexer with its own entries selects the n_top entries with the highest scores; 0: a row
  // attends to all of them.
  uint32_t n_top = 0;
  uint32_t n_index_heads = 0, index_dim = 0;

  bool exist() const { return n_tokens > 0; }
  bool selects() const { return n_top > 0; }
  uint32_t n_parts() const { return overlaps ? 2 : 1; }
  // Returns the floats of a sequence's state for entries of `dim` dimensions (CompressShape).
  uint64_t state_floats(uint64_t dim) const { return exist() ? 3 * n_parts() * dim : 0; }
};

// Attention in which K and V of a token are one vector of a single KV head, with RoPE in its last
// dimensions (DeepSeek-V4, 2026). The last dimensions of the heads' output are rotated back by the
// row's own position, so that they depend on distances only. Queries have a low rank, and each head
// is normed without weights. The output projection has a low rank too: groups of heads are first
// projected on their own.
struct JointConfig {
  uint32_t q_rank = 0;  // 0: the layer has K and V apart
  uint32_t rope_dim = 0;
  uint32_t n_groups = 0, group_rank = 0;
  EntriesConfig entries = {};

  bool exists() const { return q_rank > 0; }
};

}  // namespace kvik
