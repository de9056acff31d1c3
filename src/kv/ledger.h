#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "kv/memory_kind.h"

namespace kvik {

class Ledger;

// Reserved bytes of the budget; the destructor releases them. The ledger outlives its reservations.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Reservation();

  uint64_t bytes() const { return bytes_; }

 private:
  friend class Ledger;
  Reservation(Ledger& ledger, MemoryKind kind, uint64_t bytes)
      : ledger_(&ledger), kind_(kind), bytes_(bytes) {}
  void swap(Reservation& other) {
    std::swap(ledger_, other.ledger_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
  }

  Ledger* ledger_ = nullptr;
  MemoryKind kind_ = MemoryKind::kPages;
  uint64_t bytes_ = 0;
};

// The memory budget for the K and V of all users and tiers: memory is reserved here before it is
// touched. The page store reserves at once all that the tiers leave, so that a step can run out of
// pages, but never of bytes. Any thread.
//
// Invariant: taken() is the sum over the kinds and never exceeds budget().
class Ledger {
 public:
  explicit Ledger(uint64_t budget_bytes) : budget_(budget_bytes) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Returns std::nullopt if fewer bytes are left.
  std::optional<Reservation> reserve(MemoryKind kind, uint64_t bytes);

  uint64_t budget() const { return budget_; }
  uint64_t taken() const { return taken_.load(); }
  uint64_t left() const { return budget_ - taken(); }
  uint64_t bytes(MemoryKind kind) const { return by_kind_[static_cast<size_t>(kind)].load(); }

 private:
  friend class Reservation;
  void give_back(MemoryKind kind, uint64_t bytes);

  const uint64_t budget_;
  std::atomic<uint64_t> taken_ = 0;
  std::array<std::atomic<uint64_t>, kMemoryKinds> by_kind_{};
};

}  // namespace kvik
