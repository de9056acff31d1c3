#pragma once

#include <string>
#include <vector>

#include "base/token_id.h"
#include "service/attest/attested_request.h"
#include "service/attest/logits_chain.h"

namespace kvik {

// One choice of an answer.
struct AttestedChoice {
  std::vector<TokenId> ids;
  std::vector<LogitsChain::Link> links;  // one per token
  bool ended_itself = false;             // a stop token followed
  LogitsChain::Link end = 0;             // LogitsChain::end()
};

// An answer as a client stored it, with everything that it depends on.
struct AttestedAnswer {
  std::string model;     // fingerprint of the model
  std::string numerics;  // kvik::numerics() of the program and machine
  std::string kv_type;
  struct Prompt {
    AttestedRequest request;
    std::vector<AttestedChoice> choices;
  };
  std::vector<Prompt> prompts;
};

}  // namespace kvik
