#pragma once

#include <cstdint>
#include <span>

#include "backend/ops/attention.h"

namespace kvik {

// Entries of several tokens (DeepSeek-V4, 2026), which rows attend to beside the tokens of their
// window. Entry e is computed from the tokens [e · n_tokens, (e + 1) · n_tokens), and if entries
// overlap from the n_tokens before them, too:
//
//   entry[d] = Σt softmax(gates[t][d] + positions[t mod n_tokens][d]) · values[t][d]
//
// The values and gates of a token have a part for its own entry, and if entries overlap, before it
// a part for the next entry. A sum is kept as the maximum of its gates, the sum of the exponentials
// relative to that, and the weighted sum of the values, so that tokens are added one by one.
//
// State: for each part, the entry's own part first, [3, dim].
struct EntryShape {
  uint32_t dim = 0;
  uint32_t n_tokens = 0;
  bool overlaps = false;
  const float* positions = nullptr;  // [n_tokens, parts · dim], in the backend's memory

  uint32_t n_parts() const { return overlaps ? 2 : 1; }
};

// Places of the entries of one layer. Entry e lies in the page of its last token, with the bytes of
// a token of latent K of one KV head, but side by side (a slot), as they are always copied before
// they are read. Its slot is first_slot + its number among the entries that end in this page.
// n_tokens is a divisor or a multiple of kPageTokens.
struct EntryTarget {
  KvTarget kv;
  uint32_t n_tokens = 0;
  uint32_t first_slot = 0;

  uint32_t last_token(uint32_t entry) const { return (entry + 1) * n_tokens - 1; }
  uint32_t slot(uint32_t entry) const {
    return first_slot + last_token(entry) % kPageTokens / n_tokens;
  }
};

// The entries that rows attend to. Row i could attend to all n that end at its position or before
// it. If there are more than n_top, it attends to those in its list, ascending, which begins at
// lists[rows[i] · stride].
struct EntrySelection {
  const uint32_t* lists = nullptr;  // in the backend's memory
  uint32_t n_top = UINT32_MAX;
  uint32_t stride = 0;
  std::span<const uint32_t> rows = {};
};

}  // namespace kvik
