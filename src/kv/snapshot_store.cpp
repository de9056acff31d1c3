#include "kv/snapshot_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/kv_view.h"

namespace kvik {

// --- slots ---

bool SnapshotStore::take_slots(PageTable& table) {
  return take_state(table) && take_open_pages(table);
}

bool SnapshotStore::take_open_pages(PageTable& table) {
  if (!layout_.has_open_pages() || table.open_pages_) return true;
  auto slot = open_slots_.take();
  if (!slot) return false;
  table.open_pages_ = std::move(*slot);
  return true;
}

// Takes a slot, which has the contents of an earlier sequence. Returns false if the table lacks one
// and all are in use.
bool SnapshotStore::lease_state(PageTable& table) {
  if (!layout_.has_state() || table.state_) return true;
  auto state = states_.take();
  if (!state) {
    pages_.settle();
    const auto page = pages_.index().reserved_victim(pages_.now());
    if (!page) return false;
    pages_.evict(*page);
    state = states_.take();
  }
  CHECK(state.has_value());
  table.state_ = std::move(*state);
  return true;
}

bool SnapshotStore::take_state(PageTable& table) {
  const bool is_new = layout_.has_state() && !table.state_;
  if (!lease_state(table)) return false;
  if (is_new) pages_.memory().clear(table.state(), layout_.state_bytes);
  return true;
}

void SnapshotStore::resume_state(PageTable& table, const PrefixIndex::Match& match) {
  const PageId front = match.snapshot->snapshot.front();
  PageLease held = pages_.lease(front);
  if (lease_state(table)) {
    copy_from(*match.snapshot, table.state(), layout_.state_bytes);
    pin(table, *match.snapshot, match.n_tokens());
    return;
  }
  held = PageLease();
  if (!pages_.pool().is_reserved(front)) return;
  CHECK(lease_state(table) && table.state() == pages_.bytes_of(front));
}

void SnapshotStore::resume_open_page(PageTable& table, const PrefixIndex::Match& match) {
  const uint64_t offset = open_page_offset(match.n_whole, layout_.open_page_bytes);
  copy_from(*match.snapshot, table.open_pages() + offset, layout_.open_page_bytes);
  pin(table, *match.snapshot, match.n_tokens());
}

// --- keeping snapshots ---

std::vector<PageLease> SnapshotStore::take_pages() {
  const uint32_t n_pages = layout_.n_snapshot_pages();
  const PagePool& pool = pages_.pool();
  std::vector<PageLease> pages;
  if (pool.n_free() < n_pages) pages = states_.take_spare();
  if (pages.empty() && pages_.n_available() < n_pages) return {};
  while (pages.empty() && pool.n_free() < n_pages) {
    pages_.settle();
    const auto page = pages_.index().victim(pages_.now());
    CHECK(page.has_value());
    pages_.evict(*page);
    if (pool.is_reserved(*page)) pages = states_.take_empty();
  }
  while (pages.size() < n_pages) pages.push_back(pages_.take(layout_.n_groups()));
  const TimePoint now = pages_.now();
  for (const PageLease& page : pages) pages_.history(page.id()) = {.taken = now, .last_used = now};
  return pages;
}

bool SnapshotStore::keep(const PageTable& table, std::span<const TokenId> tokens, SnapshotKind kind,
                         EvictionRank eviction_rank) {
  CHECK(table.state_ || (table.open_pages_ && tokens.size() % kPageTokens == 0));
  if (table.is_in_step) return false;
  if (tokens.empty() || table.n_sealed() != tokens.size() / kPageTokens) return false;
  const PrefixIndex::TokenPages entry = pages_.rest_of(table, tokens);
  if (pages_.know_snapshot(entry)) return true;
  const std::vector<PageLease> pages = take_pages();
  if (pages.empty()) return false;
  if (table.state_) {
    copy_into(pages, table.state(), layout_.state_bytes);
  } else {
    const uint64_t offset = open_page_offset(table.n_sealed() - 1, layout_.open_page_bytes);
    copy_into(pages, table.open_pages() + offset, layout_.open_page_bytes);
  }
  if (!attach(entry, pages, kind, eviction_rank)) return false;
  ++n_kept_;
  pin(table, *pages_.index().node_with(pages.front().id()), tokens.size());
  return true;
}

// The slot has the newest page of a step, and the one before it if the step had no more than these
// two (OpenPages).
void SnapshotStore::keep_prompt_end(const PageTable& table, std::span<const TokenId> tokens,
                                    uint32_t n_new) {
  const uint64_t n_sealed_tokens = uint64_t{table.n_sealed()} * kPageTokens;
  const uint64_t n_prompt = table.owner.n_prompt;
  const bool ends_there = n_prompt <= n_sealed_tokens && n_prompt + kPageTokens > n_sealed_tokens;
  if (!table.open_pages() || !ends_there) return;
  if (n_sealed_tokens < tokens.size() && n_new > 1) return;
  if (n_sealed_tokens + kPageTokens <= tokens.size()) return;
  keep(table, tokens.first(n_sealed_tokens), SnapshotKind::kEnd);
}

void SnapshotStore::keep_open_page(const PageTable& table, const PrefixIndex::TokenPages& entry,
                                   std::span<const PageLease> pages, uint64_t n_tokens) {
  const uint64_t offset = open_page_offset(table.n_sealed(), layout_.open_page_bytes);
  copy_into(pages, table.open_pages() + offset, layout_.open_page_bytes);
  if (!attach(entry, pages, SnapshotKind::kEnd, EvictionRank::kNew)) return;
  ++n_kept_;
  pin(table, *pages_.index().node_with(pages.front().id()), n_tokens);
}

// Attaches filled pages as a snapshot. Returns false if it is not needed.
bool SnapshotStore::attach(const PrefixIndex::TokenPages& entry, std::span<const PageLease> pages,
                           SnapshotKind kind, EvictionRank eviction_rank) {
  run_.clear();
  for (const PageLease& page : pages) run_.push_back(page.id());
  if (!pages_.index().attach(entry, run_, kind, eviction_rank)) return false;
  pages_.publish_snapshot(pages);
  return true;
}

void SnapshotStore::copy_into(std::span<const PageLease> pages, const std::byte* from,
                              uint64_t n_bytes) const {
  for (size_t i = 0; i < pages.size(); ++i) {
    const uint64_t at = i * layout_.page_bytes;
    pages_.memory().copy(pages_.bytes_of(pages[i].id()), from + at,
                         std::min(layout_.page_bytes, n_bytes - at));
  }
}

void SnapshotStore::copy_from(const PrefixNode& node, std::byte* to, uint64_t n_bytes) {
  CHECK(node.snapshot.size() == layout_.n_snapshot_pages());
  for (size_t i = 0; i < node.snapshot.size(); ++i) {
    const uint64_t at = i * layout_.page_bytes;
    pages_.memory().copy(to + at, pages_.bytes_of(node.snapshot[i]),
                         std::min(layout_.page_bytes, n_bytes - at));
  }
  for (const PageId page : node.snapshot) pages_.index().touch(page);
  pages_.history(node.snapshot.front()).last_used = pages_.now();
}

// Pins a state if one of the owner's pins ends at its last token, and an open page if one ends
// inside it.
void SnapshotStore::pin(const PageTable& table, const PrefixNode& node, uint64_t n_tokens) {
  const TimePoint now = pages_.now();
  const uint64_t n_before =
      layout_.has_state() ? n_tokens - 1 : (n_tokens - 1) / kPageTokens * kPageTokens;
  for (const Pin& pin : table.owner.pins) {
    if (pin.n_tokens <= n_before || pin.n_tokens > n_tokens) continue;
    for (const PageId page : node.snapshot) {
      pages_.index().pin(page, now + pin.ttl, table.owner.tenant);
    }
  }
}

// --- tiers ---

std::optional<PageLease> SnapshotStore::take_page(const IncomingBytes& bytes) {
  CHECK(bytes.size() == layout_.page_bytes);
  if (pages_.n_available() == 0) return std::nullopt;
  PageLease page = pages_.take(layout_.n_groups());
  bytes.place(pages_.bytes_of(page.id()));
  return page;
}

bool SnapshotStore::insert_fetched(const TierPage& page, std::span<const PageLease> snapshot,
                                   const PrefixQuery& query) {
  CHECK(snapshot.size() == layout_.n_snapshot_pages());
  const bool is_whole = page.tokens.size() == kPageTokens;
  PrefixIndex::TokenPages entry{.root = page.root,
                                .parent = is_whole ? page.key : page.parent,
                                .tokens = page.tokens,
                                .pages = {},
                                .tenant = query.tenant,
                                .known = pages_.known_as(page.known),
                                .adapter = query.adapter};
  if (is_whole) entry.tokens = {};
  if (pages_.index().know_snapshot(entry)) return true;
  // Tiers do not store the kind; kGrid is assumed.
  if (!attach(entry, snapshot, SnapshotKind::kGrid, EvictionRank::kNew)) return false;
  for (const PageLease& lease : snapshot) {
    PageHistory& history = pages_.history(lease.id());
    history.is_fetched = history.is_saved = true;
  }
  return true;
}

}  // namespace kvik
