#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/token_id.h"
#include "kv/known_by.h"
#include "kv/page_key.h"

namespace kvik {

// Remembers the tokens of pages that made room for others, the newest `capacity` of them, so that
// a miss can be told from something never seen. Engine thread only.
class EvictedRecord {
 public:
  explicit EvictedRecord(size_t capacity) : capacity_(capacity) { by_parent_.reserve(capacity); }

  struct Page {
    KnownBy known;
    std::vector<TokenId> tokens;
  };
  void add(const PageKey& parent, Page page);

  // Whether a page below `parent` that is gone, and that the reader found, began with the first
  // n_tokens of `tokens`.
  bool knew(const PageKey& parent, KnownBy reader, std::span<const TokenId> tokens,
            size_t n_tokens) const;

 private:
  using ByParent = std::unordered_multimap<PageKey, Page, PageKeyHash>;
  size_t capacity_;
  ByParent by_parent_;  // never grows beyond what was reserved: its iterators stay valid
  std::vector<ByParent::iterator> ring_;
  size_t next_ = 0;  // the oldest, once the ring is full
};

}  // namespace kvik
