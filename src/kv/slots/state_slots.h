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

// Recurrent state of one sequence, released by the destructor.
class StateLease {
 public:
  StateLease() = default;  // refers to no state
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

// Recurrent states of running sequences, each contiguous and of the same size, in reserved pages of
// the pool (PagePool::is_reserved). A slot that no sequence is likely to need holds a snapshot.
// Knows no contents. Engine thread only; outlives its leases.
class StateSlots {
 public:
  // Uses the reserved pages of the pool. `base` is the address of page 0 of the pool.
  StateSlots(PagePool& pool, const KvLayout& layout, std::byte* base);

  uint32_t n_slots() const { return static_cast<uint32_t>(slots_.size()); }
  // Number of slots without a sequence; some of them may hold snapshots.
  uint32_t n_free() const { return n_slots() - n_in_use_; }

  // Returns a slot with its old contents; std::nullopt if all are in use or hold snapshots.
  std::optional<StateLease> take();

  // Returns the pages of a slot for a snapshot; none if sequences are likely to need the empty
  // slots. As many slots are kept for sequences as were in use at once recently.
  std::vector<PageLease> take_spare();
  // Returns the pages of an empty slot, even if a sequence may need it.
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
  std::vector<std::vector<PageLease>> slots_;  // by slot; empty if no sequence has it
  uint32_t n_in_use_ = 0;
  uint32_t n_recent_peak_ = 1;  // maximum number in use at once recently
  uint32_t n_idle_ = 0;         // slots taken since while fewer were in use
};

}  // namespace kvik
