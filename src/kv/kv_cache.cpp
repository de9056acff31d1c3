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

std::optional<uint32_t> KvCache::open(PageTable& table, const PageKey& root,
                                      std::span<const TokenId> tokens, uint64_t n_tokens) {
  CHECK(table.n_pages() == 0 && tokens.size() <= n_tokens);
  const PrefixIndex::Match match = index_.find(root, tokens);
  PageKey parent = root;
  for (const PageId page : match.whole) {
    parent = child_key(parent, index_.tokens_of(page));
    table.append(pool_.lease(page), address(page));
    table.mark_sealed(parent);
  }
  // The page to copy from is held, so that making room cannot take it.
  std::optional<PageLease> head;
  if (match.head) head = pool_.lease(*match.head);
  if (!grow(table, n_tokens)) {
    table.clear();
    return std::nullopt;
  }
  for (const PageId page : match.whole) index_.touch(page);
  const auto n_whole = static_cast<uint32_t>(match.whole.size());
  if (!head) return n_whole * kPageTokens;
  index_.touch(head->id());
  // The whole page goes along: tokens behind the head are written before anyone reads them.
  memory_.copy(table.addresses()[n_whole], address(head->id()), page_bytes_);
  return n_whole * kPageTokens + match.n_head;
}

uint32_t KvCache::adopt(PageTable& table, const PageKey& root, std::span<const TokenId> tokens) {
  const uint32_t n_sealed = table.n_sealed();
  if ((uint64_t{n_sealed} + 1) * kPageTokens > tokens.size()) return n_sealed * kPageTokens;
  PageKey parent = table.last_key().value_or(root);
  const auto match = index_.find(parent, tokens.subspan(size_t{n_sealed} * kPageTokens));
  for (const PageId page : match.whole) {
    table.replace(table.n_sealed(), pool_.lease(page), address(page));
    parent = child_key(parent, index_.tokens_of(page));
    table.mark_sealed(parent);
    index_.touch(page);
  }
  return table.n_sealed() * kPageTokens;
}

bool KvCache::grow(PageTable& table, uint64_t n_tokens) {
  const uint64_t wanted = pages_for(n_tokens);
  if (wanted > table.n_pages() + uint64_t{n_available()}) return false;
  while (table.n_pages() < wanted) {
    PageLease lease = take();
    std::byte* page = address(lease.id());
    memory_.clear(page, page_bytes_);  // masked tokens must hold finite numbers (DESIGN, section 4)
    table.append(std::move(lease), page);
  }
  return true;
}

PageLease KvCache::take() {
  if (pool_.counts().free == 0) evict_one();
  auto lease = pool_.take();
  CHECK(lease.has_value());
  return std::move(*lease);
}

// Every cached page can go, children before parents: whoever leases a page leases all above it.
void KvCache::evict_one() {
  const auto page = index_.victim([&](PageId id) { return pool_.n_owners(id) == 0; });
  CHECK(page.has_value());
  index_.erase(*page);
  pool_.evict(*page);
  ++n_evictions_;
}

void KvCache::seal(PageTable& table, const PageKey& root, std::span<const TokenId> tokens) {
  while ((uint64_t{table.n_sealed()} + 1) * kPageTokens <= tokens.size()) {
    const PageKey parent = table.last_key().value_or(root);
    const auto own = tokens.subspan(size_t{table.n_sealed()} * kPageTokens, kPageTokens);
    if (!seal_next(table, parent, own)) return;
  }
}

// Where another sequence computed the same page meanwhile, the table takes that one and gives its
// own back: the bytes are the same. False on a collision of keys: from there on nothing is shared.
bool KvCache::seal_next(PageTable& table, const PageKey& parent, std::span<const TokenId> tokens) {
  const uint32_t index = table.n_sealed();
  const auto [outcome, page] = index_.insert(parent, tokens, table.page(index));
  switch (outcome) {
    case PrefixIndex::Outcome::kNew:
      pool_.seal(page);
      break;
    case PrefixIndex::Outcome::kKnown:
      table.replace(index, pool_.lease(page), address(page));
      break;
    case PrefixIndex::Outcome::kCollision:
      return false;
  }
  table.mark_sealed(child_key(parent, tokens));
  return true;
}

void KvCache::close(PageTable& table, const PageKey& root, std::span<const TokenId> tokens) {
  seal(table, root, tokens);
  const auto tail = tokens.subspan(size_t{table.n_sealed()} * kPageTokens);
  if (!tail.empty() && tail.size() < kPageTokens) {
    const PageId page = table.page(table.n_sealed());
    const auto inserted = index_.insert(table.last_key().value_or(root), tail, page);
    if (inserted.outcome == PrefixIndex::Outcome::kNew) pool_.seal(page);
  }
  table.clear();
}

}  // namespace kvik
