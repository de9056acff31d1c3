#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backend/memory.h"
#include "kv/kv_layout.h"

namespace kvik {

class OpenPageSlots;

// Slot of one sequence for its open pages (KvLayout::open_page_bytes), released by the destructor.
class OpenPageLease {
 public:
  OpenPageLease() = default;  // refers to no slot
  OpenPageLease(OpenPageLease&& other) noexcept
      : slots_(std::exchange(other.slots_, nullptr)), index_(other.index_) {}
  OpenPageLease& operator=(OpenPageLease&& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(index_, other.index_);
    return *this;
  }
  ~OpenPageLease();

  explicit operator bool() const { return slots_ != nullptr; }
  std::byte* data() const;

 private:
  friend class OpenPageSlots;
  OpenPageLease(OpenPageSlots& slots, uint32_t index) : slots_(&slots), index_(index) {}

  OpenPageSlots* slots_ = nullptr;
  uint32_t index_ = 0;
};

// Open pages of running sequences, in a buffer separate from the pages of the pool. Knows no
// contents. Engine thread only; outlives its leases.
class OpenPageSlots {
 public:
  OpenPageSlots(Memory& memory, const KvLayout& layout);

  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }

  // Returns the slot that was released last, with its old contents; std::nullopt if all are in use.
  std::optional<OpenPageLease> take();

 private:
  friend class OpenPageLease;

  const uint64_t slot_bytes_;
  Buffer buffer_;
  std::vector<uint32_t> free_;
};

}  // namespace kvik
