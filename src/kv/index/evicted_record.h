#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/token_id.h"
#include "kv/page_key.h"
#include "kv/sharing_mark.h"

namespace kvik {

// Records the tokens of the last `capacity` evicted pages, in order to distinguish a miss by
// eviction from a prefix that was never seen. Engine thread only.
class EvictedRecord {
 public:
  explicit EvictedRecord(size_t capacity) : capacity_(capacity) { by_parent_.reserve(capacity); }

  struct Page {
    SharingMark known;
    std::vector<TokenId> tokens;
  };
  void add(const PageKey& parent, Page page);

  // Returns whether an evicted child page of `parent` that the reader could hit began with the
  // first n_tokens of `tokens`.
  bool knew(const PageKey& parent, SharingMark reader, std::span<const TokenId> tokens,
            size_t n_tokens) const;

 private:
  using ByParent = std::unordered_multimap<PageKey, Page, PageKeyHash>;
  size_t capacity_;
  ByParent by_parent_;  // never exceeds the reserved capacity, so that its iterators stay valid
  std::vector<ByParent::iterator> ring_;
  size_t next_ = 0;  // index of the oldest entry, once the ring is full
};

}  // namespace kvik
