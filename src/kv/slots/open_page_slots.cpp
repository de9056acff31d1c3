#include "kv/slots/open_page_slots.h"

#include "base/check.h"

namespace kvik {

OpenPageSlots::OpenPageSlots(Memory& memory, const KvLayout& layout)
    : slot_bytes_(layout.open_slot_bytes()) {
  if (!layout.has_open_pages() || layout.n_open_slots == 0) return;
  buffer_ = memory.allocate(layout.n_open_slots * slot_bytes_);
  for (uint32_t i = layout.n_open_slots; i > 0; --i) free_.push_back(i - 1);
}

std::optional<OpenPageLease> OpenPageSlots::take() {
  if (free_.empty()) return std::nullopt;
  OpenPageLease lease(*this, free_.back());
  free_.pop_back();
  return lease;
}

OpenPageLease::~OpenPageLease() {
  if (slots_) slots_->free_.push_back(index_);
}

std::byte* OpenPageLease::data() const {
  CHECK(slots_);
  return slots_->buffer_.data() + index_ * slots_->slot_bytes_;
}

}  // namespace kvik
