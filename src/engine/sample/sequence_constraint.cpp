#include "engine/sample/sequence_constraint.h"

#include "base/check.h"

namespace kvik {

bool SequenceConstraint::allows(TokenId token) {
  return (mask()[token / kMaskBits] >> token % kMaskBits & 1) != 0;
}

std::span<const uint64_t> SequenceConstraint::mask() {
  CHECK(is_ready());
  const uint64_t end_bit = may_end() ? 1 : 0;
  for (const TokenId token : ends_) {
    uint64_t& word = work_->mask[token / kMaskBits];
    word = (word & ~(uint64_t{1} << token % kMaskBits)) | (end_bit << token % kMaskBits);
  }
  return work_->mask;
}

std::span<const TokenId> SequenceConstraint::forced() const {
  if (is_queued() || !work_->is_advanced) return {};
  return work_->next.forced;
}

void SequenceConstraint::advance(TokenId token) {
  CHECK(is_ready());
  work_->token = token;
  work_->is_advanced = work_->has_mask = false;
}

}  // namespace kvik
