#include "engine/sample/next_tokens.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace kvik {

bool NextTokens::allows(TokenId token) { return mask().allows(token); }

const TokenBitmask& NextTokens::mask() {
  CHECK(is_ready());
  TokenBitmask& mask = job_->mask;
  const auto is_text = [&](TokenId token) { return mask.allows(token); };
  const bool bars_text = !may_end() && std::ranges::any_of(ends_, is_text);
  if (!bars_text) {
    for (const TokenId token : ends_) mask.set(token, may_end());
    return mask;
  }
  // A stop token of the request may be text of the answer. If nothing else may follow, it ends the
  // answer.
  const TokenBitmask all = mask;
  for (const TokenId token : ends_) mask.forbid(token);
  if (std::ranges::count(mask.words(), 0u) == std::ssize(mask.words())) mask = all;
  return mask;
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
