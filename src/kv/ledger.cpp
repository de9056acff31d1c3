#include "kv/ledger.h"

#include "base/check.h"

namespace kvik {

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPages:
      return "pages";
    case MemoryKind::kTierWrites:
      return "tier_writes";
    case MemoryKind::kTierReads:
      return "tier_reads";
    case MemoryKind::kDraftPages:
      return "draft_pages";
    case MemoryKind::kStates:
      return "states";
    case MemoryKind::kOpenPages:
      break;
  }
  return "open_pages";
}

Reservation::~Reservation() {
  if (ledger_) ledger_->give_back(kind_, bytes_);
}

std::optional<Reservation> Ledger::reserve(MemoryKind kind, uint64_t bytes) {
  uint64_t taken = taken_.load();
  do {
    if (bytes > budget_ - taken) return std::nullopt;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes));
  by_kind_[static_cast<size_t>(kind)] += bytes;
  return Reservation(*this, kind, bytes);
}

void Ledger::give_back(MemoryKind kind, uint64_t bytes) {
  CHECK(by_kind_[static_cast<size_t>(kind)].fetch_sub(bytes) >= bytes);
  CHECK(taken_.fetch_sub(bytes) >= bytes);
}

}  // namespace kvik
