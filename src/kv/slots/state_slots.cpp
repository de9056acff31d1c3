#include "kv/slots/state_slots.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {
namespace {

// After this many sequences began while a slot more than needed was free, the slot is spare.
constexpr uint32_t kIdleLong = 64;

}  // namespace

StateSlots::StateSlots(PagePool& pool, const KvLayout& layout, std::byte* base)
    : pool_(pool),
      n_slot_pages_(layout.n_state_pages()),
      first_page_(pool.n_pages() - pool.reserved_counts().total()),
      page_bytes_(layout.page_bytes),
      base_(base),
      slots_(layout.has_state() ? layout.n_states : 0) {
  CHECK(uint64_t{n_slots()} * n_slot_pages_ == pool.reserved_counts().total());
}

std::optional<uint32_t> StateSlots::empty_slot() const {
  for (uint32_t slot = 0; slot < n_slots(); ++slot) {
    // A snapshot's pages are evicted together.
    if (pool_.state(PageId{first_page_ + slot * n_slot_pages_}) == PageState::kFree) return slot;
  }
  return std::nullopt;
}

std::vector<PageLease> StateSlots::pages_of(uint32_t slot) {
  std::vector<PageLease> pages;
  for (uint32_t i = 0; i < n_slot_pages_; ++i) {
    const PageId id{first_page_ + slot * n_slot_pages_ + i};
    pages.push_back(pool_.take_at(id, pool_.n_groups() - 1));
  }
  return pages;
}

std::optional<StateLease> StateSlots::take() {
  const auto slot = empty_slot();
  if (!slot) return std::nullopt;
  slots_[*slot] = pages_of(*slot);
  n_recent_peak_ = std::max(n_recent_peak_, ++n_in_use_);
  n_idle_ = n_in_use_ < n_recent_peak_ ? n_idle_ + 1 : 0;
  if (n_idle_ == kIdleLong) {
    --n_recent_peak_;
    n_idle_ = 0;
  }
  return StateLease(*this, *slot);
}

std::vector<PageLease> StateSlots::take_spare() {
  if (slots_.empty()) return {};
  const uint32_t n_snapshots = pool_.reserved_counts().cached / n_slot_pages_;
  return n_recent_peak_ + n_snapshots < n_slots() ? take_empty() : std::vector<PageLease>();
}

std::vector<PageLease> StateSlots::take_empty() {
  const auto slot = empty_slot();
  return slot ? pages_of(*slot) : std::vector<PageLease>();
}

void StateSlots::give_back(uint32_t slot) {
  slots_[slot].clear();
  --n_in_use_;
}

StateLease::~StateLease() {
  if (slots_) slots_->give_back(index_);
}

std::byte* StateLease::data() const {
  CHECK(slots_);
  return slots_->base_ +
         (uint64_t{slots_->first_page_} + uint64_t{index_} * slots_->n_slot_pages_) *
             slots_->page_bytes_;
}

}  // namespace kvik
