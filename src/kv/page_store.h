#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/copy_lane.h"
#include "backend/memory.h"
#include "base/clock.h"
#include "kv/found_prefix.h"
#include "kv/idle_pages.h"
#include "kv/index/prefix_index.h"
#include "kv/kv_layout.h"
#include "kv/page_history.h"
#include "kv/page_log.h"
#include "kv/page_pool.h"
#include "kv/page_sink.h"
#include "kv/page_table.h"
#include "kv/sharing_mark.h"
#include "kv/tier_page.h"

namespace kvik {

// The pages of a KvCache: their memory, the tokens that they hold, and the choice of the page to
// evict. All memory is reserved at construction. Engine thread only.
class PageStore {
 public:
  // Reserves the pages that fit into budget_bytes, and the state pages of the layout in addition.
  PageStore(Memory& memory, uint64_t budget_bytes, KvLayout layout, const Clock& clock,
            KeyFunction key_of);

  const KvLayout& layout() const { return layout_; }
  Memory& memory() const { return memory_; }
  TimePoint now() const { return clock_.now(); }
  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }
  PrefixIndex& index() { return index_; }
  const PrefixIndex& index() const { return index_; }
  PageHistory& history(PageId id) { return histories_[static_cast<uint32_t>(id)]; }
  const PageHistory& history(PageId id) const { return histories_[static_cast<uint32_t>(id)]; }
  std::byte* bytes_of(PageId id) const {
    return buffer_.data() + static_cast<size_t>(id) * layout_.page_bytes;
  }
  // Number of pages that can be taken: free and cached ones.
  uint32_t n_available() const {
    return pool_.n_free() + pool_.counts().cached - pool_.reserved_counts().cached;
  }
  // Number of pages that can be taken without evicting one that was used since then.
  uint32_t n_unused_since(TimePoint since) const {
    return pool_.n_free() + idle_.n_unused_since(since);
  }
  // Records that a request waits for a cached page: counts as use, but not as a hit.
  void note_awaited(PageId page) {
    index_.note_awaited(page);
    if (idle_.holds(page)) idle_.note_use(page, now());
  }
  uint64_t n_evictions() const { return n_evictions_; }

  // Sets whether tenants share pages; kAll by default. Call before the first page is taken.
  void set_sharing(Sharing sharing) { sharing_ = sharing; }
  Sharing sharing() const { return sharing_; }
  // Returns the mark of the pages that a tenant computes, which is also what it may hit.
  SharingMark mark_of(uint64_t tenant) const { return known_as(mark_of_tenant(tenant)); }
  PageReader reader_of(uint64_t tenant) const { return {.tenant = tenant, .as = mark_of(tenant)}; }

  // Sets the receiver of sealed pages and of page shortages; null: none.
  void set_sink(PageSink* sink) { sink_ = sink; }
  // Sets the receiver of cached and evicted prefixes; null: none.
  void set_log(PageLog* log) { log_ = log; }
  // Returns the current counts; std::nullopt without a log. Any thread.
  std::optional<PageLogCounts> log_counts() const;

  // Leases a page of the index.
  PageLease lease(PageId id);
  // Takes a page for a group, evicting one if none is free. One must be available.
  PageLease take(uint32_t group);
  // Notifies the sink that pages are short, so that leases held for waiting requests are released.
  void notify_shortage() const;
  // Informs the index which pages are no longer leased. Leases end at any time; the order of
  // eviction is brought up to date here, before a page is chosen and when a sequence has ended.
  void settle();
  // Evicts a page that the index chose; if it belongs to a snapshot, the whole snapshot.
  void evict(PageId page);

  // Returns the tokens after the table's sealed pages; `tokens` are all tokens of its sequence.
  PrefixIndex::TokenPages rest_of(const PageTable& table, std::span<const TokenId> tokens) const;
  // Calls PrefixIndex::insert(), and publishes the pages again if that made the node visible to all
  // tenants.
  const PrefixNode* insert(const PrefixIndex::TokenPages& entry);
  // Calls PrefixIndex::know_snapshot() and informs the tiers.
  const PrefixNode* know_snapshot(const PrefixIndex::TokenPages& entry);
  // Notifies the sink and the log that a page can be hit. A second call notifies the receivers that
  // had no memory the first time.
  void publish(PageId page);
  // Like publish(), for the pages of a snapshot.
  void publish_snapshot(std::span<const PageLease> pages);

  // Inserts a page that a tier fetched for the query. Returns a lease of it, or of the page that
  // holds these tokens already; std::nullopt if no page is available or the page before it is not
  // in the index.
  std::optional<PageLease> insert_fetched(const TierPage& page, const IncomingBytes& bytes,
                                          const PrefixQuery& query);
  // Returns the mark here of a page that is marked `known` in a tier: all tenants if tenants share
  // pages.
  SharingMark known_as(SharingMark known) const {
    return sharing_ == Sharing::kAll ? SharingMark::kAll : known;
  }
  // Returns the record of a page in the index; std::nullopt for any other page.
  std::optional<TierPage> describe(PageId id) const;
  // Records that a tier has stored the page's contents.
  void note_saved(PageId id);

 private:
  void notify_of(const PrefixNode& node);
  void log_stored(PageId page) const;
  bool is_logged(const PrefixNode& node, uint32_t group) const;

  Memory& memory_;
  const Clock& clock_;
  const KvLayout layout_;
  PagePool pool_;
  PrefixIndex index_;
  std::vector<PageHistory> histories_;  // by page
  IdlePages idle_;
  Buffer buffer_;
  PageSink* sink_ = nullptr;
  PageLog* log_ = nullptr;
  Sharing sharing_ = Sharing::kAll;
  uint64_t n_evictions_ = 0;

  // Reused buffers, so that a call allocates nothing.
  std::vector<PageId> unused_;
  std::vector<PageId> evicted_;
  std::vector<std::optional<PageId>> node_pages_;
};

}  // namespace kvik
