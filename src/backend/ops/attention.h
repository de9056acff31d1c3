#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/kv_type.h"

namespace kvik {

// Shape of the K and V of one token in a page. A page holds kPageTokens tokens of all layers of a
// layer group.
struct KvGeometry {
  KvType type = KvType::kF32;
  uint32_t n_layers = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  // MLA: if not 0, there is no separate V; V is the first latent_dim dimensions of K. A multiple of
  // 16 (DeepSeek-V2, 2024).
  uint32_t latent_dim = 0;
  // int4 K has a step and a zero point per dimension (channel) and kChannelTokens tokens (KIVI, Liu
  // et al. 2024). Such K is written when its page is full, from the open page, so all runs must
  // have open pages.
  bool keys_by_channel = false;

  uint32_t value_dim() const { return latent_dim != 0 ? latent_dim : head_dim; }
  // Returns the geometry of the open pages that go with pages of this geometry.
  KvGeometry of_open_pages() const {
    KvGeometry open = *this;
    open.type = kOpenType;
    open.keys_by_channel = false;
    return open;
  }
};

// Consecutive tokens of one sequence in a batch. Rows [first_row, first_row + n_rows) are at
// positions first_position, first_position + 1, … Token t of the sequence is in pages[t /
// kPageTokens].
//
// If `open` is not empty, each row attends to its own page in kOpenType, and to all earlier pages
// as they are stored. open[i] holds the tokens of page first_position / kPageTokens + i, in the
// layout of a page of kOpenType; `open` ends with the page of the last row. write_kv() writes
// tokens to both pages, except that K by channel is written to `pages` only once the page is full.
struct KvRun {
  std::span<std::byte* const> pages;
  uint32_t first_position = 0;
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  std::span<std::byte* const> open = {};  // set for all runs of a call, or for none
};

// The pages of one layer's K and V, and the sequences that they belong to.
struct KvTarget {
  const KvGeometry& geometry;
  uint32_t layer;  // within its layer group
  std::span<const KvRun> runs;
};

// The tokens that a row attends to. kEarlier: those up to its own position (causal attention).
// kBoth: all tokens of its run, which must then be the whole sequence (bidirectional attention).
enum class AttentionReach : uint8_t { kEarlier, kBoth };

struct SelectedTokens;

struct AttentionShape {
  uint32_t n_heads = 0;
  float scale = 0;     // scores = scale · q·k
  float soft_cap = 0;  // 0: none; else scores = cap · tanh(scores / cap)
  // 0: all earlier tokens; else only the last `window` tokens, including the row's own
  //
  // With kBoth, an odd number: the tokens at a distance of at most window / 2 on each side.
  uint32_t window = 0;
  // Attention sinks: an additional score per head that belongs to no token. It takes part in the
  // softmax and adds nothing to the sum of V (Xiao et al. 2023). [n_heads] in the backend's memory;
  // null: none.
  const float* sinks = nullptr;
  AttentionReach reach = AttentionReach::kEarlier;
  // If not null, rows attend to these tokens only. Must be null if there are sinks.
  const SelectedTokens* selected = nullptr;
};

// Attention heads of one kind of layer.
struct HeadsUse {
  KvGeometry kv;
  uint32_t n_heads = 0;
  // Fields of SelectedTokens; n_top is 0 if rows attend to all tokens.
  uint32_t n_top = 0;
  uint32_t block_tokens = 1;
  uint32_t key_tokens = 1;  // IndexTarget::key_tokens
  uint32_t n_lists = 1;
  // Number of entries and tokens that a row of attend_to_entries() attends to at most; 0: there are
  // no such rows. n_top is then the number of entries that are selected.
  uint32_t n_copied = 0;
};

}  // namespace kvik
