#include "kv/kv_cache.h"

#include "base/check.h"

namespace kvik {

KvCache::KvCache(Memory& memory, uint64_t budget_bytes, size_t page_bytes)
    : memory_(memory),
      page_bytes_(page_bytes),
      pool_(static_cast<uint32_t>(budget_bytes / page_bytes)),
      buffer_(memory.allocate(pool_.n_pages() * page_bytes)) {
  CHECK(budget_bytes / page_bytes <= UINT32_MAX);
}

bool KvCache::grow(PageTable& table, uint64_t n_tokens) {
  const uint64_t wanted = pages_for(n_tokens);
  if (wanted > table.n_pages() + uint64_t{pool_.counts().free}) return false;
  while (table.n_pages() < wanted) {
    auto lease = pool_.take();
    CHECK(lease.has_value());
    std::byte* page = address(lease->id());
    memory_.clear(page, page_bytes_);  // masked tokens must hold finite numbers (DESIGN, section 4)
    table.append(std::move(*lease), page);
  }
  return true;
}

}  // namespace kvik
