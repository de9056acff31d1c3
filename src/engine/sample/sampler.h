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

// Picks tokens from logits. Holds only scratch memory; one thread.
//
// The order is: bias, penalties, constraint, temperature, min-p, top-k, top-p (each over the
// candidates that the one before left), then a draw. Ties go to the lower id.
//
// The weight of a token is weight_of() of its scaled logit minus the largest, and weights are added
// in doubles. The order of each sum is part of the definition: ascending ids, or descending weights
// once the candidates have been sorted. Blocks of adjacent tokens whose largest logit shows that
// none of them is a candidate are skipped, and only candidates are sorted.
class Sampler {
  struct Candidate {
    TokenId id;
    float weight;
  };
  static constexpr size_t kBlock = 64;  // tokens of a block

 public:
  explicit Sampler(uint32_t n_vocab);

  // Returns the bytes of a sampler's scratch memory.
  static uint64_t buffer_bytes(uint32_t n_vocab) {
    return uint64_t{n_vocab} * (sizeof(float) + 2 * sizeof(Candidate)) +
           2 * n_blocks(n_vocab) * sizeof(float);
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
  static size_t n_blocks(size_t n_vocab) { return (n_vocab + kBlock - 1) / kBlock; }

  std::span<const float> adjusted(const Input& input);
  void apply_mask(const TokenBitmask& mask);
  std::optional<TokenId> draw(std::span<const float> logits, const SamplingParams& params,
                              uint64_t position);
  double weigh(std::span<const float> logits, const SamplingParams& params, float peak);
  float min_weight(const SamplingParams& params);
  void collect(float least, float below);
  void sort_candidates(size_t first);
  void keep_top_k(uint32_t k);
  void collect_top_p(double limit);
  bool keep_top_p(double limit, size_t first, double& sum);
  double sum_of_candidates() const;
  TokenId draw_candidate(double left) const;
  TokenId draw_token(double left) const;

  static bool heavier(const Candidate& a, const Candidate& b);

  // By token: the logit after bias, penalties and masks, then the weight, 0 of a token that is no
  // candidate. In a block without candidates weights are not set.
  std::vector<float> values_;
  std::vector<float> largest_;  // by block: the largest logit, then the largest weight
  std::vector<float> ranked_;   // scratch of min_weight()
  std::vector<Candidate> candidates_;
  std::vector<Candidate> sorted_;  // scratch of sort_candidates()
};

}  // namespace kvik
