#include "engine/sample/next_tokens.h"

#include "base/check.h"

namespace kvik {

bool NextTokens::allows(TokenId token) { return mask().allows(token); }

const TokenBitmask& NextTokens::mask() {
  CHECK(is_ready());
  for (const TokenId token : ends_) job_->mask.set(token, may_end());
  return job_->mask;
}

std::span<const TokenId> NextTokens::forced() const {
  if (is_queued() || !job_->is_advanced) return {};
  return job_->next.forced;
}

void NextTokens::advance(TokenId token) {
  CHECK(is_ready());
  job_->token = token;
  job_->is_advanced = job_->has_mask = false;
}

}  // namespace kvik
