#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backend/memory.h"

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
// of the same size. Knows no contents. Engine thread only; outlives its leases.
class StateSlots {
 public:
  // n_bytes 0: sequences have none.
  StateSlots(Memory& memory, uint64_t n_bytes, uint32_t n_slots);

  uint64_t n_bytes() const { return n_bytes_; }
  uint32_t n_slots() const { return n_slots_; }
  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }

  // As its last owner left it; std::nullopt where none is free.
  std::optional<StateLease> take();

 private:
  friend class StateLease;

  const uint64_t n_bytes_;
  const uint32_t n_slots_;
  Buffer buffer_;
  std::vector<uint32_t> free_;  // used as a stack
};

}  // namespace kvik
