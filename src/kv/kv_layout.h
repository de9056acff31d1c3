#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/kv_type.h"

namespace kvik {

// How the K and V of a model lie in pages. A layer group is some of the layers with the same
// attention span; kPageTokens tokens of it fill one page, and the pages of all groups are of one
// size, so that any free page serves any group and the budget needs no division among them.
struct KvLayout {
  KvLayout(size_t bytes, std::vector<uint32_t> spans = {0})
      : page_bytes(bytes), windows(std::move(spans)) {}

  size_t page_bytes;
  // Of each group: how many tokens the attention behind a token sees, itself included; 0: all.
  std::vector<uint32_t> windows;

  uint32_t n_groups() const { return static_cast<uint32_t>(windows.size()); }
};

// Pages that n_tokens take in one group.
inline uint64_t pages_for(uint64_t n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

// The first page that the token behind n_tokens, or a later one, looks at.
inline uint64_t first_page_seen(uint32_t window, uint64_t n_tokens) {
  if (window == 0 || n_tokens < window) return 0;
  return (n_tokens + 1 - window) / kPageTokens;
}

// The most pages that the tokens one of them sees can lie in, itself included.
inline uint64_t pages_in_sight(uint32_t window) { return pages_for(window) + 1; }

// Pages that a sequence of n_tokens needs at once, in all groups, where it is computed token by
// token; a step of more tokens takes their pages of the windowed groups in addition.
inline uint64_t pages_at_once(const KvLayout& layout, uint64_t n_tokens) {
  uint64_t n = 0;
  for (const uint32_t window : layout.windows) {
    const uint64_t all = pages_for(n_tokens);
    n += window == 0 ? all : std::min(all, pages_in_sight(window));
  }
  return n;
}

// The longest sequence that n_pages hold alone, at most UINT32_MAX tokens.
inline uint64_t tokens_held(const KvLayout& layout, uint64_t n_pages) {
  uint64_t low = 0, high = UINT32_MAX / kPageTokens;  // in pages; low fits
  while (low < high) {
    const uint64_t middle = (low + high + 1) / 2;
    if (pages_at_once(layout, middle * kPageTokens) <= n_pages) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kPageTokens;
}

}  // namespace kvik
