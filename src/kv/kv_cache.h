#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/memory.h"
#include "base/clock.h"
#include "base/token_id.h"
#include "kv/found_prefix.h"
#include "kv/kv_layout.h"
#include "kv/page_store.h"
#include "kv/page_table.h"
#include "kv/snapshot_store.h"

namespace kvik {

// Paged KV cache of all sequences: allocates pages, finds cached prefixes, and keeps the pages of
// ended sequences until their memory is needed.
//
// A prompt is looked up while it waits, find() or look_up(), and its pages are leased with hold()
// while a tier fetches more. open() begins the sequence. Before each step grow() and make_room()
// get pages for its new tokens; after it seal() makes full pages visible to other sequences,
// slide() releases those outside the window, and adopt() exchanges own pages for equal ones.
// close() ends it. The caches of quantized types also have open pages: the tokens of a sequence's
// last page, not quantized (docs/design/attention.md).
//
// n_spare, in open() and grow(), is the number of pages that must remain available afterwards, for
// the next tokens of sequences that run already.
//
// All memory is reserved at construction, so that the budget cannot be exceeded. Physical memory is
// touched when a page is first taken. Engine thread only.
class KvCache {
 public:
  // Reserves as many pages as fit into budget_bytes of the backend's memory, and the state pages of
  // the layout in addition. The clock expires pins.
  KvCache(Memory& memory, uint64_t budget_bytes, KvLayout layout, const Clock& clock,
          KeyFunction key_of = child_key);
  KvCache(Memory& memory, uint64_t budget_bytes, size_t page_bytes);

  // Returns the longest cached prefix of the query. `before` is the result of an earlier lookup of
  // the same prompt: the index is searched again only if pages were added or evicted since. Takes
  // no leases.
  FoundPrefix find(const PrefixQuery& query, FoundPrefix before = {}) const;

  // Like find(), for a request that waits for admission: marks the pages as awaited, so that pages
  // without waiting requests are evicted first.
  FoundPrefix look_up(const PrefixQuery& query, FoundPrefix before = {});

  // Returns the time since the last use of the pages at the end of a prefix that was found just
  // now; std::nullopt if they are in use, or the prompt continues no conversation.
  std::optional<Duration> idle_time(const FoundPrefix& found) const;

  // Leases all whole pages of a prefix that was found just now.
  void hold(FoundPrefix& found);

  // Fills an empty table with the pages of the longest cached prefix, which `found` then describes,
  // and with free pages for the rest of n_tokens; in windowed groups with as many pages as are
  // needed at once. The table's root becomes the query's. K and V of the cached tokens need no
  // computing. Returns false and takes nothing unless enough pages are free or evictable, and
  // n_spare more. If the prefix ends inside a cached page, its tokens are copied from that page,
  // and from its open page in a cache with open pages.
  bool open(PageTable& table, const PrefixQuery& query, FoundPrefix& found, uint64_t n_tokens,
            uint64_t n_spare = 0);

  // Replaces the table's own pages with identical pages that other sequences sealed since, if its
  // owner may hit them and `tokens` fill them. Returns the number of tokens in the table's sealed
  // pages.
  uint32_t adopt(PageTable& table, std::span<const TokenId> tokens);

  // Appends to `out` up to n_max tokens with which a cached sequence continues `tokens`, which are
  // all tokens of the table's sequence. Considers only sequences that the table's owner may hit; if
  // there are several, takes the one used last.
  void append_continuation(const PageTable& table, std::span<const TokenId> tokens, size_t n_max,
                           std::vector<TokenId>& out) const;

  // Returns the sharing mark of the page that follows the table's sealed pages and holds `tokens`.
  // Used to decide which computations are worth waiting for.
  SharingMark mark_for(const PageTable& table, std::span<const TokenId> tokens) const {
    return pages_.index().mark_for(table.root(), table.parent_key(), tokens);
  }

  // Copies the partly filled last page (and its open page) from another sequence that has the same
  // pages before it and more tokens in this one; n_from is the number of its tokens with K and V,
  // n_common that of the tokens that both have in common. Takes no page. Returns false if the table
  // has no page there, or the open page of the other sequence no longer exists.
  bool copy_partial_page(PageTable& to, const PageTable& from, uint64_t n_from, uint64_t n_common);

  // Extends the table to n_tokens with cleared pages, evicting cached pages where needed; windowed
  // groups get as many pages as are needed at once, so that at least one more token can be
  // computed. Returns false and takes nothing if that is impossible, or if fewer than n_spare pages
  // would remain available.
  bool grow(PageTable& table, uint64_t n_tokens, uint64_t n_spare = 0);

  // Extends windowed groups to compute n_new tokens after the first n_cached in one step, or as
  // many of them as there are pages for; returns how many. Groups with full attention were extended
  // by grow() already.
  uint32_t make_room(PageTable& table, uint64_t n_cached, uint32_t n_new);

  // Seals the pages that the first tokens.size() tokens of the sequence fill: other sequences can
  // hit them from now on. `known` is the sharing mark that the pages have besides that of the
  // table's tenant.
  void seal(PageTable& table, std::span<const TokenId> tokens,
            SharingMark known = SharingMark::kNoTenant);

  // Writes bytes that a tier had to a page that is not sealed, in a cache of one group. Returns
  // false if the table does not hold the page.
  bool place(PageTable& table, uint32_t index, const IncomingBytes& bytes);

  // Releases the pages of windowed groups that no token after the first n_tokens attends to.
  void slide(PageTable& table, uint64_t n_tokens);

  // Releases the pages after those of the first n_tokens, none of which is sealed.
  void shrink(PageTable& table, uint64_t n_tokens);

  // Ends a sequence whose first tokens.size() tokens have K and V. All of its pages can be hit from
  // now on, also the partly filled last one, and the table becomes empty. In a cache with open
  // pages the last page is kept together with its open page, if there is room.
  void close(PageTable& table, std::span<const TokenId> tokens);

  // Returns an empty table for a sequence of this cache. `root` is the parent key of its first
  // page.
  PageTable make_table(const PageKey& root = {}) const {
    PageTable table(layout().n_groups());
    table.root_ = root;
    return table;
  }

  PageStore& pages() { return pages_; }
  const PageStore& pages() const { return pages_; }
  SnapshotStore& snapshots() { return snapshots_; }
  const SnapshotStore& snapshots() const { return snapshots_; }

  const KvLayout& layout() const { return pages_.layout(); }
  size_t page_bytes() const { return layout().page_bytes; }
  uint32_t n_available() const { return pages_.n_available(); }
  uint32_t n_pages() const { return pages_.pool().n_pages(); }
  // Number of pages for K and V, without the slots of recurrent states.
  uint32_t n_token_pages() const { return n_pages() - pages_.pool().reserved_counts().total(); }
  // Number of tokens of the longest sequence that fits if it runs alone.
  uint64_t n_tokens_max() const { return tokens_held(layout(), n_token_pages()); }
  const PageCounts& counts() const { return pages_.pool().counts(); }
  const PageCounts& counts(uint32_t group) const { return pages_.pool().counts(group); }

 private:
  void keep_last_page(PageTable& table, std::span<const TokenId> tokens);
  bool open_with(PageTable& table, const PrefixIndex::Match& match, uint64_t n_tokens,
                 uint64_t n_spare);
  void build_path(const PrefixIndex::Match& match);
  template <class Visit>
  void visit_needed(const PrefixIndex::Match& match, const Visit& visit);
  uint64_t n_missing(const PageTable& table) const;
  uint64_t n_missing_for(const PageTable& table, uint64_t n_tokens);
  void fill_up(PageTable& table);
  void copy_head(PageTable& table, const PrefixIndex::Match& match,
                 const std::vector<PageLease>& pages);
  void forget_newest_token(PageTable& table, uint32_t index);
  bool seal_next(PageTable& table, std::span<const TokenId> tokens, SharingMark known);
  std::span<const std::optional<PageId>> pages_at(const PageTable& table, uint32_t index);
  void pin(const PageTable& table, uint32_t index, TimePoint now);

  PageStore pages_;
  SnapshotStore snapshots_;

  // Kept so that a call allocates nothing.
  std::vector<std::optional<PageId>> node_pages_;
  std::vector<const PrefixNode*> path_;  // to the end of a match
  std::vector<uint64_t> wanted_;         // how long each group of a table is to be
};

}  // namespace kvik
