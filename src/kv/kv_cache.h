#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/memory.h"
#include "base/token_id.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/prefix_index.h"
#include "tensor/kv_type.h"

namespace kvik {

// The pages of all sequences and what is known of their contents: hands out pages, finds those that
// hold a prefix already, keeps the pages of ended sequences until their memory is needed.
//
// All memory is reserved at once: the budget cannot be passed, because there is nothing beyond it.
// Physical memory is touched when a page is first taken. Engine thread only.
class KvCache {
 public:
  // As many pages of page_bytes as fit budget_bytes, in the backend's memory.
  KvCache(Memory& memory, uint64_t budget_bytes, size_t page_bytes);

  // Fills an empty table with the pages that hold the longest known prefix of `tokens`, and pages
  // for all of `n_tokens`. Returns the tokens found, whose K and V need no computing; std::nullopt,
  // and nothing taken, where not enough pages are free or evictable. A prefix that ends inside a
  // known page is copied from it.
  std::optional<uint32_t> open(PageTable& table, const PageKey& root,
                               std::span<const TokenId> tokens, uint64_t n_tokens);

  // Takes pages that others sealed meanwhile in the place of the table's own, as far as `tokens`
  // fill whole pages that are known. Returns the tokens that the table's sealed pages hold then.
  uint32_t adopt(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);

  // Makes the table long enough for n_tokens with cleared pages, evicting what nobody uses. False,
  // and nothing taken, where that does not suffice.
  bool grow(PageTable& table, uint64_t n_tokens);

  // Makes the pages that the first tokens.size() tokens of the sequence fill findable by others.
  void seal(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);

  // Ends a sequence whose first tokens.size() tokens have K and V: all of its pages become
  // findable, the partly filled last one too, and the table is empty.
  void close(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);

  // Pages that n_tokens take.
  static uint64_t pages_for(uint64_t n_tokens) {
    return (n_tokens + kPageTokens - 1) / kPageTokens;
  }

  // Pages that can be had: the free ones and the cached ones.
  uint32_t n_available() const { return counts().free + counts().cached; }
  uint64_t n_tokens_max() const { return uint64_t{pool_.n_pages()} * kPageTokens; }
  size_t page_bytes() const { return page_bytes_; }
  const PageCounts& counts() const { return pool_.counts(); }
  uint64_t n_evictions() const { return n_evictions_; }

 private:
  std::byte* address(PageId id) const {
    return buffer_.data() + static_cast<size_t>(id) * page_bytes_;
  }
  PageLease take();
  void evict_one();
  bool seal_next(PageTable& table, const PageKey& parent, std::span<const TokenId> tokens);

  Memory& memory_;
  size_t page_bytes_;
  PagePool pool_;
  PrefixIndex index_;
  Buffer buffer_;
  uint64_t n_evictions_ = 0;
};

}  // namespace kvik
