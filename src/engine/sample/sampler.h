#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/request/request.h"
#include "engine/sample/logit_adjuster.h"
#include "engine/sample/next_tokens.h"
#include "engine/sample/ordered_sampler.h"
#include "engine/sample/uniform_draw.h"
#include "engine/sample/weigh_block.h"

namespace kvik {

// Picks tokens from logits. Holds only scratch memory; one thread.
//
// The order is: bias, penalties, DRY, banned sequences, constraint, temperature, min-p, top-k,
// top-p (each over the candidates that the one before left), then a draw. Ties go to the lower id.
// If runs_in_order(), it is: bias, banned sequences, constraint, then OrderedSampler.
//
// The weight of a token is weight_of() of its scaled logit minus the largest, and weights are added
// in doubles. The order of each sum is part of the definition. Candidates: ascending ids, or
// descending weights once they have been sorted. All tokens: the sums of blocks (WeighBlock) in
// ascending order. Blocks of adjacent tokens whose largest logit shows that none of them is a
// candidate are skipped, and only candidates are sorted.
class Sampler {
  struct Candidate {
    TokenId id;
    float weight;
  };
  static constexpr size_t kBlock = kWeighBlock;  // tokens of a block

 public:
  explicit Sampler(uint32_t n_vocab);

  // Returns the bytes of a sampler's scratch memory.
  static uint64_t buffer_bytes(uint32_t n_vocab) {
    return uint64_t{n_vocab} * (sizeof(float) + 2 * sizeof(Candidate)) +
           n_blocks(n_vocab) * (2 * sizeof(float) + sizeof(double)) +
           OrderedSampler::buffer_bytes(n_vocab);
  }

  struct Input {
    std::span<const float> logits;
    const SamplingParams& params;
    const TokenHistory& history;
    std::span<const TokenId> masked;    // never picked
    uint64_t position;                  // position of the picked token in its sequence
    NextTokens* next_tokens = nullptr;  // null: no constraint
    float* mirostat_mu = nullptr;       // as in OrderedSampler
  };

  // Picks a token. Returns std::nullopt if no allowed token has a finite logit: the weights are
  // broken, or the vocabulary cannot express what the constraint requires. A constraint takes
  // precedence over banned sequences.
  std::optional<TokenId> sample(const Input& input);

 private:
  static size_t n_blocks(size_t n_vocab) { return (n_vocab + kBlock - 1) / kBlock; }

  std::span<const float> adjusted(const Input& input);
  void apply_mask(const TokenBitmask& mask);
  void apply_constraint(const Input& input);
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

  WeighBlock weigh_block_ = weigh_blocks().back();
  // By token: the logit after bias, penalties and masks, then the weight, 0 of a token that is no
  // candidate. In a block without candidates weights are not set.
  std::vector<float> values_;
  std::vector<float> largest_;  // by block: the largest logit, then the largest weight
  std::vector<double> sums_;    // by block: the sum of the weights
  std::vector<float> ranked_;   // scratch of min_weight()
  std::vector<Candidate> candidates_;
  std::vector<Candidate> sorted_;  // scratch of sort_candidates()
  LogitAdjuster adjuster_;
  OrderedSampler ordered_;
};

}  // namespace kvik
