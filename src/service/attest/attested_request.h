#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/token_id.h"
#include "engine/request/request.h"

namespace kvik {

// Everything besides the model that the answers to one prompt depend on, so that they can be
// computed again.
struct AttestedRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;  // choice_index is that of the first choice
  uint32_t min_tokens = 0;
  std::vector<TokenId> stop_tokens;
  std::string adapter;  // its digest; empty: none
  // A grammar or a reasoning budget selected tokens. It is not recorded, so the logits can be
  // verified, but not the choice among them.
  bool is_constrained = false;
};

// Returns a hash of everything in the request.
Hash128 hash_of(const AttestedRequest& request);

// Returns the token sequences of a DRY sampler's breakers in ascending order; none if it is off.
std::vector<std::vector<TokenId>> sorted_breakers(const DryParams& dry);

}  // namespace kvik
