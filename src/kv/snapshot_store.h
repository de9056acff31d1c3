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

// The slots of sequences: the state of layers without K and V, or open pages; and snapshots of
// both, kept in pages, from which other sequences continue. Engine thread only.
class SnapshotStore {
 public:
  explicit SnapshotStore(PageStore& pages)
      : pages_(pages),
        layout_(pages.layout()),
        states_(pages.pool(), layout_, pages.bytes_of(PageId{0})),
        open_slots_(pages.memory(), layout_) {}

  const StateSlots& states() const { return states_; }
  const OpenPageSlots& open_slots() const { return open_slots_; }

  // Gives the table the slots that its model needs, a state cleared as before the first token.
  // Returns false where it lacks one and all are in use.
  bool take_slots(PageTable& table);
  // Gives the table a state that continues the snapshot of a match; none where all slots are in
  // use. A snapshot that lies in the only slot left becomes the state itself.
  void resume_state(PageTable& table, const PrefixIndex::Match& match);
  // Copies the open page of a match into the table's slot.
  void resume_open_page(PageTable& table, const PrefixIndex::Match& match);

  // Keeps the state after the sequence's first tokens.size() tokens, all that it has, where others
  // find it: a snapshot. Its pages up to there must be sealed but for the last that is not full.
  // Without a state, the open page of the last full one. Returns false where there is no room, or
  // no use.
  bool keep(const PageTable& table, std::span<const TokenId> tokens, SnapshotKind kind,
            Regard regard = Regard::kNew);
  // Keeps the open page of the last sealed page if the prompt ends there, so that the same prompt
  // is then found to its last token. n_new: pages sealed with it.
  void keep_prompt_end(const PageTable& table, std::span<const TokenId> tokens, uint32_t n_new);
  // Pages for a snapshot: free ones, else a slot that is spare, else those of what ranks lowest.
  // None where there is no room for it.
  std::vector<PageLease> take_pages();
  // Keeps the open page of a partly filled page, the table's last, in pages of take_pages().
  void keep_open_page(const PageTable& table, const PrefixIndex::Stretch& stretch,
                      std::span<const PageLease> pages, uint64_t n_tokens);
  // A sequence that continued a snapshot has kept a later one of its own.
  void outdate(const PageKey& key) { pages_.index().outdate_snapshot(key); }
  uint64_t n_kept() const { return n_kept_; }  // so far

  // PageStore::insert_fetched() for the pages of a snapshot, which are taken one by one, piece by
  // piece, and become findable together.
  std::optional<PageLease> take_piece(const IncomingBytes& bytes);
  bool insert_fetched(const TierPage& page, std::span<const PageLease> pieces,
                      const PrefixQuery& query);

 private:
  bool lease_state(PageTable& table);
  bool take_state(PageTable& table);
  bool take_open_pages(PageTable& table);
  void copy_into(std::span<const PageLease> pages, const std::byte* from, uint64_t n_bytes) const;
  void copy_from(const PrefixNode& node, std::byte* to, uint64_t n_bytes);
  bool attach(const PrefixIndex::Stretch& stretch, std::span<const PageLease> pages,
              SnapshotKind kind, Regard regard);
  void pin(const PageTable& table, const PrefixNode& node, uint64_t n_tokens);

  PageStore& pages_;
  const KvLayout& layout_;
  StateSlots states_;
  OpenPageSlots open_slots_;
  uint64_t n_kept_ = 0;
  std::vector<PageId> run_;  // kept so that a call allocates nothing
};

}  // namespace kvik
