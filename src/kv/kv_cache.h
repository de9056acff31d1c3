#pragma once

#include <cstdint>

#include "backend/memory.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "tensor/kv_type.h"

namespace kvik {

// The memory of all pages, reserved at once and handed out page by page: the budget cannot be
// passed, because there is nothing beyond it. Physical memory is touched when a page is first
// taken. Engine thread only.
class KvCache {
 public:
  // As many pages of page_bytes as fit budget_bytes, in the backend's memory.
  KvCache(Memory& memory, uint64_t budget_bytes, size_t page_bytes);

  // Makes the table long enough for n_tokens with cleared pages. False, and nothing taken, where
  // fewer are free than that needs.
  bool grow(PageTable& table, uint64_t n_tokens);

  // Pages that n_tokens take.
  static uint64_t pages_for(uint64_t n_tokens) {
    return (n_tokens + kPageTokens - 1) / kPageTokens;
  }

  uint64_t n_tokens_max() const { return uint64_t{pool_.n_pages()} * kPageTokens; }
  size_t page_bytes() const { return page_bytes_; }
  const PageCounts& counts() const { return pool_.counts(); }

 private:
  std::byte* address(PageId id) const {
    return buffer_.data() + static_cast<size_t>(id) * page_bytes_;
  }

  Memory& memory_;
  size_t page_bytes_;
  PagePool pool_;
  Buffer buffer_;
};

}  // namespace kvik
