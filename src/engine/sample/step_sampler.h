#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/sample/sampler.h"
#include "engine/sequence.h"

namespace kvik {

// The pick of a sequence's next token.
struct TokenPick {
  Sequence* sequence = nullptr;
  std::span<const float> logits = {};    // empty for a plain greedy sequence
  std::optional<TokenId> argmax = {};    // of a plain greedy sequence
  std::optional<TokenEvent> event = {};  // std::nullopt if no allowed token has a finite logit
  bool is_made = false;
};

// Picks the next tokens of a step's sequences and finds their log probabilities, on the backend's
// threads. No two picks may have the same sequence. Engine thread only.
class StepSampler {
 public:
  // Borrows the backend.
  StepSampler(Backend& backend, uint32_t n_vocab);

  // Returns the bytes of the scratch memory.
  static uint64_t buffer_bytes(uint32_t n_vocab, const Backend& backend) {
    return backend.n_threads() * Sampler::buffer_bytes(n_vocab);
  }

  // Makes the picks, except those for which there is no memory.
  void make(std::span<TokenPick> picks);
  void make(TokenPick& pick) { make(samplers_.front(), pick); }

 private:
  static void make(Sampler& sampler, TokenPick& pick);

  Backend& backend_;
  std::vector<Sampler> samplers_;  // by thread
};

}  // namespace kvik
