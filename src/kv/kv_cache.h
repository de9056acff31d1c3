#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/copy_lane.h"
#include "backend/memory.h"
#include "base/clock.h"
#include "base/token_id.h"
#include "kv/found_prefix.h"
#include "kv/known_by.h"
#include "kv/kv_layout.h"
#include "kv/page_key.h"
#include "kv/page_log.h"
#include "kv/page_pool.h"
#include "kv/page_sink.h"
#include "kv/page_story.h"
#include "kv/page_table.h"
#include "kv/prefix_index.h"
#include "kv/tier_page.h"
#include "tensor/kv_type.h"

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

  // Fills an empty table with the pages of the longest known prefix, which `found` tells then, and
  // pages for all of n_tokens; in windowed groups for as many as are seen at once. The K and V of
  // the tokens found need no computing. False, and nothing taken, where not enough pages are free
  // or evictable, or not n_spare more. A prefix that ends inside a known page is copied from it,
  // and from its open page where sequences have those.
  bool open(PageTable& table, const PrefixQuery& query, FoundPrefix& found, uint64_t n_tokens,
            uint64_t n_spare = 0);

  // Takes pages that others sealed meanwhile in the place of the table's own, as far as `tokens`
  // fill whole pages that its owner finds. Returns the tokens that the table's sealed pages hold
  // then.
  uint32_t adopt(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);

  // Appends up to n_most tokens that sequences which the table's owner finds went on with behind
  // `tokens`, all that the table's own sequence has; of several, that which was used last.
  void continue_behind(const PageTable& table, const PageKey& root, std::span<const TokenId> tokens,
                       size_t n_most, std::vector<TokenId>& out) const;

  // Who knows the page of `tokens` behind the table's sealed ones, whoever asks: to decide whose
  // computation is worth waiting for.
  KnownBy who_knows(const PageTable& table, const PageKey& root,
                    std::span<const TokenId> tokens) const {
    return index_.who_knows(root, table.last_key().value_or(root), tokens);
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
  void seal(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);

  // Gives back what no token behind the first n_tokens will look at.
  void slide(PageTable& table, uint64_t n_tokens);

  // Gives back the pages behind those of the first n_tokens, none of them sealed.
  void shrink(PageTable& table, uint64_t n_tokens);

  // Ends a sequence whose first tokens.size() tokens have K and V: all of its pages become
  // findable, the partly filled last one too, and the table is empty. Where sequences have open
  // pages, the last one is kept with its open page, if there is room for it.
  void close(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);

  // Keeps the state after the sequence's first tokens.size() tokens, all that it has, where others
  // find it: a snapshot. Its pages up to there must be sealed but for the last that is not full.
  // Without a state, the open page of the last full one. False where there is no room, or no use.
  bool keep_state(const PageTable& table, const PageKey& root, std::span<const TokenId> tokens,
                  SnapshotKind kind, Regard regard = Regard::kNew);
  // Whoever went on from a snapshot has kept a later one of its own.
  void outdate_snapshot(const PageKey& key) { index_.outdate_snapshot(key); }
  uint64_t n_snapshots() const { return n_snapshots_; }  // kept so far

  // Who finds what, from now on; kAll unless told otherwise. Before the first page is taken.
  void set_sharing(Sharing sharing) { sharing_ = sharing; }
  Sharing sharing() const { return sharing_; }
  // Among how many tenants pins share the pages; 1 unless told otherwise.
  void set_tenants(uint32_t n) { index_.set_tenants(n); }
  // How a tenant's pages are marked, and what it finds.
  KnownBy mark_of(uint64_t tenant) const {
    return sharing_ == Sharing::kAll ? KnownBy::kAll : known_by(tenant);
  }

  // Who hears of sealed pages and of shortage; null: nobody.
  void set_sink(PageSink* sink) { sink_ = sink; }
  // Who hears of prefixes that come and go; null: nobody.
  void set_log(PageLog* log) { log_ = log; }
  // Returns the current counts, on any thread; nothing without a log.
  std::optional<PageLogCounts> log_counts() const;

  // Makes a page that a slower tier held for that query findable again. std::nullopt where no page
  // can be had, or what stands before it is not known.
  std::optional<PageLease> insert_fetched(const TierPage& page, const IncomingBytes& bytes,
                                          const PrefixQuery& query);

  // The same for the pages of a snapshot, which are taken one by one, piece by piece, and become
  // findable together.
  std::optional<PageLease> take_piece(const IncomingBytes& bytes);
  bool insert_snapshot(const TierPage& page, std::span<const PageLease> pieces,
                       const PrefixQuery& query);

  // What a findable page holds; std::nullopt of any other.
  std::optional<TierPage> describe(PageId id) const;
  const std::byte* bytes_of(PageId id) const { return address(id); }
  // A slower tier was given the page's contents.
  void note_saved(PageId id);
  Memory& memory() const { return memory_; }

  // A table for the sequences of this cache.
  PageTable make_table() const { return PageTable(layout_.n_groups()); }

  // Pages that can be had: the free ones and the cached ones.
  uint32_t n_available() const {
    return pool_.n_free() + counts().cached - pool_.counts_apart().cached;
  }
  uint32_t n_pages() const { return pool_.n_pages(); }
  // Those without the slots of states.
  uint32_t n_token_pages() const { return n_pages() - pool_.counts_apart().total(); }
  const StateSlots& states() const { return states_; }
  const OpenPageSlots& open_slots() const { return open_slots_; }
  // Tokens of the longest sequence that finds room alone.
  uint64_t n_tokens_max() const { return tokens_held(layout_, n_token_pages()); }
  const KvLayout& layout() const { return layout_; }
  size_t page_bytes() const { return layout_.page_bytes; }
  const PageCounts& counts() const { return pool_.counts(); }
  const PageCounts& counts(uint32_t group) const { return pool_.counts(group); }
  uint64_t n_evictions() const { return n_evictions_; }

  // For whoever shows the pages.
  const PagePool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }
  const PageStory& story(PageId id) const { return stories_[static_cast<uint32_t>(id)]; }

 private:
  std::byte* address(PageId id) const {
    return buffer_.data() + static_cast<size_t>(id) * layout_.page_bytes;
  }
  void keep_last_page(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);
  void keep_open_page(const PageTable& table, const PageKey& root, std::span<const TokenId> tokens,
                      uint32_t n_new);
  void copy_into(std::span<const PageLease> pages, const std::byte* from, uint64_t n_bytes);
  void copy_from(const PrefixNode& snapshot, std::byte* to, uint64_t n_bytes);
  PrefixIndex::Stretch stretch_behind(const PageTable& table, const PageKey& root,
                                      std::span<const TokenId> tokens) const;
  bool attach(const PrefixIndex::Stretch& stretch, std::span<const PageLease> pages,
              SnapshotKind kind, Regard regard);
  std::vector<PageLease> take_for_snapshot();
  void pin_snapshot(const PageTable& table, const PrefixNode& node, uint64_t n_tokens);
  bool open_with(PageTable& table, const PrefixIndex::Match& match, uint64_t n_tokens,
                 uint64_t n_spare);
  void lay_path(const PrefixIndex::Match& match);
  template <class Visit>
  void visit_needed(const PrefixIndex::Match& match, const Visit& visit);
  uint64_t n_missing(const PageTable& table) const;
  uint64_t n_missing_for(const PageTable& table, uint64_t n_tokens);
  bool lease_state(PageTable& table);
  bool take_state(PageTable& table);
  bool take_open_pages(PageTable& table);
  void resume_state(PageTable& table, const PrefixIndex::Match& match);
  void fill_up(PageTable& table);
  void copy_head(PageTable& table, uint32_t index, const std::vector<PageLease>& pages);
  PageLease lease(PageId id);
  PageLease take(uint32_t group);
  void publish(PageId page);
  void log_stored(PageId page) const;
  bool is_logged(const PrefixNode& node, uint32_t group) const;
  void evict_one();
  void evict(PageId page);
  bool seal_next(PageTable& table, const PageKey& root, std::span<const TokenId> tokens);
  std::span<const std::optional<PageId>> pages_at(const PageTable& table, uint32_t index);
  const PrefixNode* insert(const PageTable& table, const PageKey& root,
                           std::span<const TokenId> tokens,
                           std::span<const std::optional<PageId>> pages);
  void tell_of(const PrefixNode& node);
  PageReader reader_of(uint64_t tenant) const { return {.tenant = tenant, .as = mark_of(tenant)}; }
  void pin(const PageTable& table, uint32_t index, TimePoint now);
  void settle();

  Memory& memory_;
  const Clock& clock_;
  KvLayout layout_;
  PagePool pool_;
  PrefixIndex index_;
  std::vector<PageStory> stories_;  // by page
  Buffer buffer_;
  StateSlots states_;
  OpenPageSlots open_slots_;
  PageSink* sink_ = nullptr;
  PageLog* log_ = nullptr;
  Sharing sharing_ = Sharing::kAll;
  uint64_t n_evictions_ = 0;
  uint64_t n_snapshots_ = 0;

  // Kept so that a call allocates nothing.
  std::vector<PageId> unused_;
  std::vector<std::optional<PageId>> node_pages_;
  std::vector<const PrefixNode*> path_;  // to the end of a match
  std::vector<uint64_t> wanted_;         // how long each group of a table is to be
  std::vector<PageId> run_;              // of a snapshot
};

}  // namespace kvik
