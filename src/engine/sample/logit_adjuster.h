#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/request/sampling_params.h"

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

// The tokens before the one that is sampled.
struct TokenHistory {
  const TokenCounts& counts;
  std::span<const TokenId> tokens = {};  // prompt, then answer
  size_t n_prompt = 0;
};

// Changes logits, [n_vocab], by the tokens so far. Holds only scratch memory, which grows with the
// history; one thread.
class LogitAdjuster {
 public:
  // Subtracts the repetition, presence and frequency penalties.
  void penalize_tokens(const SamplingParams& params, const TokenHistory& history,
                       std::span<float> logits);
  // Subtracts DRY's penalties.
  void penalize_repetitions(const DryParams& dry, std::span<const TokenId> tokens,
                            std::span<float> logits);
  // Sets the logits of the tokens that would complete a banned sequence to −∞.
  void ban(const SamplingParams& params, const TokenHistory& history, std::span<float> logits);
  // Restores the logits that the last ban() has replaced.
  void restore(std::span<float> logits) const;

 private:
  void count_newest(std::span<const TokenId> tokens);
  void find_repetitions(size_t limit);

  std::unordered_map<TokenId, uint32_t> numbers_;    // by token: its count, or its repetition
  std::vector<TokenId> newest_first_;                // tokens that DRY searches
  std::vector<uint32_t> repeated_;                   // by their place: see find_repetitions()
  std::vector<std::pair<TokenId, float>> replaced_;  // banned tokens and their logits
};

}  // namespace kvik
