#include "engine/sample/next_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

namespace {

// Returns whether the mask allows some of the tokens and no others.
bool allows_only(const TokenBitmask& mask, std::span<const TokenId> tokens) {
  if (std::ranges::none_of(tokens, [&](TokenId token) { return mask.allows(token); })) return false;
  TokenBitmask rest = mask;
  for (const TokenId token : tokens) rest.forbid(token);
  return std::ranges::all_of(rest.words(), [](uint64_t word) { return word == 0; });
}

}  // namespace

bool NextTokens::allows(TokenId token) { return mask().allows(token); }

const TokenBitmask& NextTokens::mask() {
  CHECK(is_ready());
  TokenBitmask& mask = job_->mask;
  // A stop token of the request may be text of the answer: it ends the answer if nothing else may
  // follow.
  if (!may_end() && allows_only(mask, ends_)) return mask;
  for (const TokenId token : ends_) mask.set(token, may_end());
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
