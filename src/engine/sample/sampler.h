#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request/request.h"
#include "engine/sample/next_tokens.h"

namespace kvik {

// What the penalties look at: how often each token stood in the prompt and in the answer.
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

// Whether it matters to a sample which tokens stood before.
inline bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

// A uniform number in [0, 1) that depends on nothing but its key: no state, so preemption and
// batching cannot move it. (SplitMix64's finaliser over the three words, Steele et al. 2014)
double uniform_draw(uint64_t seed, uint32_t choice_index, uint64_t position);

// log softmax of raw logits: one token's, and the n most likely ones', most likely first.
TokenLogprob logprob_of(std::span<const float> logits, TokenId id);
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, uint32_t n);
// The token's place in that order; the most likely one has 1.
uint32_t rank_of(std::span<const float> logits, TokenId id);

// Picks tokens from logits. Holds scratch only; one thread.
//
// Order: bias, penalties, what a constraint allows, temperature, then of the distribution that
// leaves min-p, top-k and top-p, each over what the one before left, and a draw. Ties go to the
// lower id.
class Sampler {
  struct Candidate {
    TokenId id;
    float weight;  // exp of the scaled logit less the largest
  };

 public:
  explicit Sampler(uint32_t n_vocab);

  // Bytes of such a sampler's scratch.
  static uint64_t buffer_bytes(uint32_t n_vocab) {
    return uint64_t{n_vocab} * (sizeof(float) + sizeof(Candidate));
  }

  struct Input {
    std::span<const float> logits;
    const SamplingParams& params;
    const TokenCounts& counts;
    std::span<const TokenId> masked;    // never picked
    uint64_t position;                  // of the token to be picked, in its sequence
    NextTokens* next_tokens = nullptr;  // null: none
  };

  // std::nullopt where no logit of a token that may be picked is a finite number: the weights are
  // broken, or the vocabulary cannot say what the constraint asks for.
  std::optional<TokenId> sample(const Input& input);

 private:
  void adjust(const Input& input);
  void keep_only(const TokenBitmask& mask);
  TokenId draw(const SamplingParams& params, uint64_t position, TokenId best);
  void keep_top_k(uint32_t k);
  void keep_top_p(float p);

  static bool heavier(const Candidate& a, const Candidate& b);

  std::vector<float> logits_;  // adjusted
  std::vector<Candidate> candidates_;
};

}  // namespace kvik
