#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/copy_lane.h"
#include "backend/memory.h"
#include "base/clock.h"
#include "kv/found_prefix.h"
#include "kv/index/prefix_index.h"
#include "kv/known_by.h"
#include "kv/kv_layout.h"
#include "kv/page_log.h"
#include "kv/page_pool.h"
#include "kv/page_sink.h"
#include "kv/page_story.h"
#include "kv/page_table.h"
#include "kv/tier_page.h"

namespace kvik {

// The pages of a KvCache: their memory, which tokens they hold, and which go when one is needed.
// All memory is reserved at once. Engine thread only.
class PageStore {
 public:
  // Reserves the pages that fit budget_bytes, and those of the layout's states beside them.
  PageStore(Memory& memory, uint64_t budget_bytes, KvLayout layout, const Clock& clock,
            KeyFunction key_of);

  const KvLayout& layout() const { return layout_; }
  Memory& memory() const { return memory_; }
  TimePoint now() const { return clock_.now(); }
  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }
  PrefixIndex& index() { return index_; }
  const PrefixIndex& index() const { return index_; }
  PageStory& story(PageId id) { return stories_[static_cast<uint32_t>(id)]; }
  const PageStory& story(PageId id) const { return stories_[static_cast<uint32_t>(id)]; }
  std::byte* bytes_of(PageId id) const {
    return buffer_.data() + static_cast<size_t>(id) * layout_.page_bytes;
  }
  // Pages that can be had: the free ones and the cached ones.
  uint32_t n_available() const {
    return pool_.n_free() + pool_.counts().cached - pool_.counts_apart().cached;
  }
  uint64_t n_evictions() const { return n_evictions_; }

  // Decides which tenants find the pages of others; kAll by default. Before the first page is
  // taken.
  void set_sharing(Sharing sharing) { sharing_ = sharing; }
  Sharing sharing() const { return sharing_; }
  // Returns the mark of a tenant's pages, and of what it finds.
  KnownBy mark_of(uint64_t tenant) const { return known_as(known_by(tenant)); }
  PageReader reader_of(uint64_t tenant) const { return {.tenant = tenant, .as = mark_of(tenant)}; }

  // The sink learns of sealed pages and of shortage; null: there is none.
  void set_sink(PageSink* sink) { sink_ = sink; }
  // The log learns of prefixes that come and go; null: there is none.
  void set_log(PageLog* log) { log_ = log; }
  // Returns the current counts, on any thread; nothing without a log.
  std::optional<PageLogCounts> log_counts() const;

  // Leases a page that is known.
  PageLease lease(PageId id);
  // Takes a page for a group, and evicts one where none is free. One must be available.
  PageLease take(uint32_t group);
  // Ends a lack of pages where it can: leases that are held for later should end.
  void tell_shortage() const;
  // Tells the index which pages have no lease any more.
  void settle();
  // Evicts a page that the index named, with all of its snapshot where it is of one.
  void evict(PageId page);

  // Returns the tokens of the table's sequence after its sealed pages; `tokens` are all that it
  // has.
  PrefixIndex::Stretch rest_of(const PageTable& table, std::span<const TokenId> tokens) const;
  // PrefixIndex::insert(), after which slower tiers are informed.
  const PrefixNode* insert(const PrefixIndex::Stretch& stretch);
  // PrefixIndex::know_snapshot(), likewise.
  const PrefixNode* know_snapshot(const PrefixIndex::Stretch& stretch);
  // Announces a page that is findable. A second call repeats it for those that lacked the memory.
  void publish(PageId page);
  // The same for the pages of a snapshot.
  void publish_snapshot(std::span<const PageLease> pages);

  // Makes a page that a slower tier held for that query findable again. std::nullopt where no page
  // can be had, or the page before it is not known.
  std::optional<PageLease> insert_fetched(const TierPage& page, const IncomingBytes& bytes,
                                          const PrefixQuery& query);
  // Returns whose page it is when a tier brings it.
  KnownBy known_as(KnownBy known) const {
    return sharing_ == Sharing::kAll ? KnownBy::kAll : known;
  }
  // Returns what a findable page holds; std::nullopt of any other.
  std::optional<TierPage> describe(PageId id) const;
  // A slower tier was given the page's contents.
  void note_saved(PageId id);

 private:
  void tell_of(const PrefixNode& node);
  void log_stored(PageId page) const;
  bool is_logged(const PrefixNode& node, uint32_t group) const;

  Memory& memory_;
  const Clock& clock_;
  const KvLayout layout_;
  PagePool pool_;
  PrefixIndex index_;
  std::vector<PageStory> stories_;  // by page
  Buffer buffer_;
  PageSink* sink_ = nullptr;
  PageLog* log_ = nullptr;
  Sharing sharing_ = Sharing::kAll;
  uint64_t n_evictions_ = 0;

  // Kept so that a call allocates nothing.
  std::vector<PageId> unused_;
  std::vector<PageId> evicted_;
  std::vector<std::optional<PageId>> node_pages_;
};

}  // namespace kvik
