#pragma once

#include <cstdint>
#include <span>

#include "base/hash.h"
#include "base/token_id.h"

namespace kvik {

// A hash chain over the logits from which the tokens of an answer were sampled. It begins with the
// request, so that the chain of another request differs from the first token on. It detects
// changes, not forgeries: everyone who has the model can compute it.
class LogitsChain {
 public:
  using Link = uint64_t;

  // `request`: hash_of() the request.
  LogitsChain(const Hash128& request, uint32_t choice);

  // Adds a token and the raw logits that it was sampled from. Returns the token's link: a hash of
  // the links before, the token and the bits of the logits. Two equal links mean that the requests
  // and all tokens and logits up to there are equal.
  Link add(TokenId id, std::span<const float> logits);
  // Returns the link of the end. ended_itself: a stop token followed.
  Link end(bool ended_itself) const;

 private:
  Hash128 last_;
};

}  // namespace kvik
