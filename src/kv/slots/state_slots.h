#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kv/kv_layout.h"
#include "kv/page_pool.h"

namespace kvik {

class StateSlots;

// One sequence's state, as long as it lives. Gives itself back.
class StateLease {
 public:
  StateLease() = default;  // of none
  StateLease(StateLease&& other) noexcept
      : slots_(std::exchange(other.slots_, nullptr)), index_(other.index_) {}
  StateLease& operator=(StateLease&& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(index_, other.index_);
    return *this;
  }
  ~StateLease();

  explicit operator bool() const { return slots_ != nullptr; }
  std::byte* data() const;

 private:
  friend class StateSlots;
  StateLease(StateSlots& slots, uint32_t index) : slots_(&slots), index_(index) {}

  StateSlots* slots_ = nullptr;
  uint32_t index_ = 0;
};

// The states of running sequences: what layers without K and V remember of them, each in one piece
// of the same size, in pages of the pool that are apart. A slot that no sequence is likely to need
// holds a snapshot. Knows no contents. Engine thread only; outlives its leases.
class StateSlots {
 public:
  // In the pages that are apart of this pool, whose first page is at `base`.
  StateSlots(PagePool& pool, const KvLayout& layout, std::byte* base);

  uint32_t n_slots() const { return static_cast<uint32_t>(slots_.size()); }
  // That no sequence has; in some of them snapshots may lie.
  uint32_t n_free() const { return n_slots() - n_in_use_; }

  // As whoever had it last left it; std::nullopt where all are in use or hold snapshots.
  std::optional<StateLease> take();

  // The pages of one to keep a snapshot in; none where sequences will need what is empty. As many
  // are theirs as had one at once lately.
  std::vector<PageLease> take_spare();
  // The pages of one that is empty, whoever needs it.
  std::vector<PageLease> take_empty();

 private:
  friend class StateLease;

  std::optional<uint32_t> empty_slot() const;
  std::vector<PageLease> pages_of(uint32_t slot);
  void give_back(uint32_t slot);

  PagePool& pool_;
  const uint32_t n_slot_pages_;
  const uint32_t first_page_;
  const uint64_t page_bytes_;
  std::byte* const base_;
  std::vector<std::vector<PageLease>> slots_;  // empty where no sequence has it
  uint32_t n_in_use_ = 0;
  uint32_t n_lately_ = 1;  // in use at once, at most
  uint32_t n_idle_ = 0;    // taken since while fewer were in use
};

}  // namespace kvik
