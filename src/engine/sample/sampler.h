#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request/request.h"
#include "engine/sample/next_tokens.h"

namespace kvik {

// Counts how often each token occurs in the prompt and in the answer, for the penalties.
class TokenCounts {
 public:
  struct Count {
    uint32_t in_prompt = 0;
    uint32_t in_answer = 0;
  };
  void add_prompt(TokenId id) { ++counts_[id].in_prompt; }
  void add_answer(TokenId id) { ++counts_[id].in_answer; }
  const std::unordered_map<TokenId, Count>& all() const { return counts_; }

 private:
  std::unordered_map<TokenId, Count> counts_;
};

// Returns whether sampling depends on earlier tokens.
inline bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

// Returns a uniform number in [0, 1) that depends only on the arguments. Without state, preemption
// and batching cannot change it. (SplitMix64's finalizer over the three words, Steele et al. 2014)
double uniform_draw(uint64_t seed, uint32_t choice_index, uint64_t position);

// Return the log softmax of raw logits: of one token, and of the n most likely ones, most likely
// first.
TokenLogprob logprob_of(std::span<const float> logits, TokenId id);
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, uint32_t n);
// Returns the token's rank by logit; the most likely token has rank 1.
uint32_t rank_of(std::span<const float> logits, TokenId id);

// Picks tokens from logits. Holds only scratch memory; one thread.
//
// The order is: bias, penalties, constraint, temperature, min-p, top-k, top-p (each over the
// candidates that the one before left), then a draw. Ties go to the lower id.
class Sampler {
  struct Candidate {
    TokenId id;
    float weight;  // exp of the scaled logit minus the largest
  };

 public:
  explicit Sampler(uint32_t n_vocab);

  // Returns the bytes of a sampler's scratch memory.
  static uint64_t buffer_bytes(uint32_t n_vocab) {
    return uint64_t{n_vocab} * (sizeof(float) + sizeof(Candidate));
  }

  struct Input {
    std::span<const float> logits;
    const SamplingParams& params;
    const TokenCounts& counts;
    std::span<const TokenId> masked;    // never picked
    uint64_t position;                  // position of the picked token in its sequence
    NextTokens* next_tokens = nullptr;  // null: no constraint
  };

  // Picks a token. Returns std::nullopt if no allowed token has a finite logit: the weights are
  // broken, or the vocabulary cannot express what the constraint requires.
  std::optional<TokenId> sample(const Input& input);

 private:
  void adjust(const Input& input);
  void apply_mask(const TokenBitmask& mask);
  TokenId draw(const SamplingParams& params, uint64_t position, TokenId best);
  void keep_top_k(uint32_t k);
  void keep_top_p(float p);

  static bool heavier(const Candidate& a, const Candidate& b);

  std::vector<float> logits_;  // after bias, penalties and masks
  std::vector<Candidate> candidates_;
};

}  // namespace kvik
