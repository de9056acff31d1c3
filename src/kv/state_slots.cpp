#include "kv/state_slots.h"

#include "base/check.h"

namespace kvik {

StateSlots::StateSlots(Memory& memory, uint64_t n_bytes, uint32_t n_slots)
    : n_bytes_(n_bytes), n_slots_(n_bytes > 0 ? n_slots : 0) {
  if (n_slots_ == 0) return;
  buffer_ = memory.allocate(n_bytes_ * n_slots_);
  for (uint32_t i = n_slots_; i > 0; --i) free_.push_back(i - 1);
}

std::optional<StateLease> StateSlots::take() {
  if (free_.empty()) return std::nullopt;
  StateLease lease(*this, free_.back());
  free_.pop_back();
  return lease;
}

StateLease::~StateLease() {
  if (slots_) slots_->free_.push_back(index_);
}

std::byte* StateLease::data() const {
  CHECK(slots_);
  return slots_->buffer_.data() + index_ * slots_->n_bytes_;
}

}  // namespace kvik
