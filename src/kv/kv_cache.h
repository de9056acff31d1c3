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

// The pages of all sequences and what is known of their contents: hands out pages, finds those that
// hold a prefix already, keeps the pages of ended sequences until their memory is needed.
//
// All memory is reserved at once: the budget cannot be passed, because there is nothing beyond it.
// Physical memory is touched when a page is first taken. Engine thread only.
class KvCache {
 public:
  // As many pages as fit budget_bytes, in the backend's memory, and those of the layout's states
  // beside them. The clock ends pins.
  KvCache(Memory& memory, uint64_t budget_bytes, KvLayout layout, const Clock& clock,
          KeyFunction key_of = child_key);
  KvCache(Memory& memory, uint64_t budget_bytes, size_t page_bytes);

  // The longest known prefix of what is asked for. `before` is what was found of the same prompt
  // when somebody looked last: nothing is searched where no page came or went since. Nothing is
  // held that was not held before.
  FoundPrefix find(const PrefixQuery& query, FoundPrefix before = {}) const;

  // find(), for somebody who waits to open it: its pages are given up after those that nobody asked
  // for since.
  FoundPrefix look_up(const PrefixQuery& query, FoundPrefix before = {});

  // Leases all whole pages that a prefix found just now needs.
  void hold(FoundPrefix& found);

  // Fills an empty table with the pages of the longest known prefix, which `found` holds then, and
  // with pages for all of n_tokens; in windowed groups for as many as are seen at once. Its root
  // becomes that of the query. The K and V of the tokens found need no computing. Returns false,
  // and takes nothing, where not enough pages are free or evictable, or not n_spare more. A prefix
  // that ends inside a known page is copied from it, and from its open page where sequences have
  // those.
  bool open(PageTable& table, const PrefixQuery& query, FoundPrefix& found, uint64_t n_tokens,
            uint64_t n_spare = 0);

  // Takes pages that others sealed meanwhile in the place of the table's own, as far as `tokens`
  // fill whole pages that its owner finds. Returns the tokens that the table's sealed pages hold
  // then.
  uint32_t adopt(PageTable& table, std::span<const TokenId> tokens);

  // Appends up to n_most tokens that sequences which the table's owner finds went on with behind
  // `tokens`, all that the table's own sequence has; of several, that which was used last.
  void continue_behind(const PageTable& table, std::span<const TokenId> tokens, size_t n_most,
                       std::vector<TokenId>& out) const;

  // Returns the tenants that know the page of `tokens` after the table's sealed ones: to decide
  // which computation is worth waiting for.
  KnownBy who_knows(const PageTable& table, std::span<const TokenId> tokens) const {
    return pages_.index().who_knows(table.root(), table.parent_key(), tokens);
  }

  // Copies the page that two sequences of the same pages in front are both filling, where that of
  // the other one, which has K and V of n_from tokens, is further; with its open page. Takes no
  // page: false where the table has none there, or the other one's open page is gone.
  bool copy_filling_page(PageTable& to, const PageTable& from, uint64_t n_from);

  // Makes the table long enough for n_tokens with cleared pages, evicting what nobody uses; in
  // windowed groups for as many as are seen at once behind what slid away, so that at least one
  // token more can be computed. False, and nothing taken, where that does not suffice, or would
  // leave fewer than n_spare to be had.
  bool grow(PageTable& table, uint64_t n_tokens, uint64_t n_spare = 0);

  // Makes windowed groups long enough to compute n_new tokens behind the first n_cached in one
  // step, or as many of them as there is room for; returns how many. A table of groups that see
  // everything is as long as grow() made it.
  uint32_t make_room(PageTable& table, uint64_t n_cached, uint32_t n_new);

  // Makes the pages that the first tokens.size() tokens of the sequence fill findable by others.
  void seal(PageTable& table, std::span<const TokenId> tokens);

  // Gives back what no token behind the first n_tokens will look at.
  void slide(PageTable& table, uint64_t n_tokens);

  // Gives back the pages behind those of the first n_tokens, none of them sealed.
  void shrink(PageTable& table, uint64_t n_tokens);

  // Ends a sequence whose first tokens.size() tokens have K and V: all of its pages become
  // findable, the partly filled last one too, and the table is empty. Where sequences have open
  // pages, the last one is kept with its open page, if there is room for it.
  void close(PageTable& table, std::span<const TokenId> tokens);

  // Returns an empty table for a sequence of this cache, whose keys follow `root`.
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
  // Those without the slots of states.
  uint32_t n_token_pages() const { return n_pages() - pages_.pool().counts_apart().total(); }
  // Tokens of the longest sequence that finds room alone.
  uint64_t n_tokens_max() const { return tokens_held(layout(), n_token_pages()); }
  const PageCounts& counts() const { return pages_.pool().counts(); }
  const PageCounts& counts(uint32_t group) const { return pages_.pool().counts(group); }

 private:
  void keep_last_page(PageTable& table, std::span<const TokenId> tokens);
  bool open_with(PageTable& table, const PrefixIndex::Match& match, uint64_t n_tokens,
                 uint64_t n_spare);
  void lay_path(const PrefixIndex::Match& match);
  template <class Visit>
  void visit_needed(const PrefixIndex::Match& match, const Visit& visit);
  uint64_t n_missing(const PageTable& table) const;
  uint64_t n_missing_for(const PageTable& table, uint64_t n_tokens);
  void fill_up(PageTable& table);
  void copy_head(PageTable& table, uint32_t index, const std::vector<PageLease>& pages);
  bool seal_next(PageTable& table, std::span<const TokenId> tokens);
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
