#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/page_store.h"
#include "kv/slots/open_page_slots.h"
#include "kv/slots/state_slots.h"
#include "kv/snapshot_kind.h"

namespace kvik {

// Slots of running sequences, which hold their recurrent state or their open pages; and snapshots
// of both, stored in pages, from which other sequences resume. Engine thread only.
//
//   slot      memory that one running sequence changes with every step
//   snapshot  a copy of a state or of one open page, in a run of pages that a node of the prefix
//             index owns; it never changes, and is evicted as a whole
class SnapshotStore {
 public:
  explicit SnapshotStore(PageStore& pages)
      : pages_(pages),
        layout_(pages.layout()),
        states_(pages.pool(), layout_, pages.bytes_of(PageId{0})),
        open_slots_(pages.memory(), layout_) {}

  const StateSlots& states() const { return states_; }
  const OpenPageSlots& open_slots() const { return open_slots_; }

  // Gives the table the slots that its model needs, the state cleared as before the first token.
  // Returns false if a slot is missing and all are in use; the table keeps the slot that it got.
  bool take_slots(PageTable& table);
  // Gives the table a state copied from the snapshot of a match; no state if all slots are in use.
  // If the snapshot lies in the only slot left, that slot becomes the sequence's state.
  void resume_state(PageTable& table, const PrefixIndex::Match& match);
  // Copies the open page of a match into the table's slot.
  void resume_open_page(PageTable& table, const PrefixIndex::Match& match);

  // Keeps a snapshot of the state after the sequence's first tokens.size() tokens, which are all
  // that it has. Its pages must be sealed, except for a partly filled last one. A model without
  // recurrent state keeps the open page of the last full page. Returns false if there is no room
  // for the snapshot, or none can be taken now; true also if the same snapshot exists already.
  bool keep(const PageTable& table, std::span<const TokenId> tokens, SnapshotKind kind,
            EvictionRank eviction_rank = EvictionRank::kNew);
  // Keeps the open page of the last sealed page if the prompt ends there, so that the same prompt
  // is hit up to its last token. n_new: number of pages sealed with it.
  void keep_prompt_end(const PageTable& table, std::span<const TokenId> tokens, uint32_t n_new);
  // Takes the pages of a snapshot: free pages, else those of a state slot that no sequence is
  // likely to need (StateSlots::take_spare()), else evicted ones. Returns nothing if there is no
  // room.
  std::vector<PageLease> take_pages();
  // Keeps the open page of the table's partly filled last page in pages of take_pages().
  void keep_open_page(const PageTable& table, const PrefixIndex::TokenPages& entry,
                      std::span<const PageLease> pages, uint64_t n_tokens);
  // Marks a snapshot as outdated: a sequence that resumed from it has kept a later one.
  void outdate(const PageKey& key) { pages_.index().outdate_snapshot(key); }
  uint64_t n_kept() const { return n_kept_; }  // number of snapshots kept so far

  // Like PageStore::insert_fetched(), for the pages of a snapshot that a tier fetched: take_page()
  // fills one page, or returns std::nullopt if none is available; insert_fetched() adds all of them
  // to the index, and returns false if the page that they belong to is not in it.
  std::optional<PageLease> take_page(const IncomingBytes& bytes);
  bool insert_fetched(const TierPage& page, std::span<const PageLease> snapshot,
                      const PrefixQuery& query);

 private:
  bool lease_state(PageTable& table);
  bool take_state(PageTable& table);
  bool take_open_pages(PageTable& table);
  void copy_into(std::span<const PageLease> pages, const std::byte* from, uint64_t n_bytes) const;
  void copy_from(const PrefixNode& node, std::byte* to, uint64_t n_bytes);
  bool attach(const PrefixIndex::TokenPages& entry, std::span<const PageLease> pages,
              SnapshotKind kind, EvictionRank eviction_rank);
  void pin(const PageTable& table, const PrefixNode& node, uint64_t n_tokens);

  PageStore& pages_;
  const KvLayout& layout_;
  StateSlots states_;
  OpenPageSlots open_slots_;
  uint64_t n_kept_ = 0;
  std::vector<PageId> run_;  // reused buffer, so that a call allocates nothing
};

}  // namespace kvik
