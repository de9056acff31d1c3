#include "engine/sample/sequence_constraint.h"

#include <algorithm>

namespace kvik {

bool SequenceConstraint::allows(TokenId token) {
  return std::ranges::find(ends_, token) != ends_.end() ? may_end() : constraint_->allows(token);
}

std::span<const uint64_t> SequenceConstraint::mask() {
  if (!is_made_) constraint_->fill_mask(mask_);
  is_made_ = true;
  const uint64_t end_bit = may_end() ? 1 : 0;
  for (const TokenId token : ends_) {
    uint64_t& word = mask_[token / kMaskBits];
    word = (word & ~(uint64_t{1} << token % kMaskBits)) | (end_bit << token % kMaskBits);
  }
  return mask_;
}

}  // namespace kvik
