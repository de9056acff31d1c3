#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sample/logit_adjuster.h"

namespace kvik {

// Picks tokens by samplers that run one after the other, each over the candidates that the one
// before left. The definitions, the default order and the edge cases are llama.cpp's. Holds only
// scratch memory; one thread.
//
// Weights are weight_of() of logits minus the largest, and sums are doubles. The order of a sum is
// part of the definition: that of the candidates, which are in ascending order of id until a
// sampler sorts them. Ties go to the lower id.
class OrderedSampler {
  struct Candidate {
    TokenId id;
    float logit;
    float weight;
  };

 public:
  explicit OrderedSampler(uint32_t n_vocab) { candidates_.reserve(n_vocab); }

  static uint64_t buffer_bytes(uint32_t n_vocab) { return uint64_t{n_vocab} * sizeof(Candidate); }

  struct Input {
    std::span<float> logits;  // after bias and masks; changed. −∞: not allowed
    const SamplingParams& params;
    const TokenHistory& history;
    uint64_t position;
    LogitAdjuster& adjuster;
    float* mirostat_mu;  // state of Mirostat, which the pick changes; null: that of the first token
  };

  // Picks a token. Returns std::nullopt if no logit is finite.
  std::optional<TokenId> sample(const Input& input);

 private:
  void run(SamplerKind kind, const Input& input);
  void adjust(SamplerKind kind, const Input& input);
  float peak() const;
  double weigh();
  double entropy(double total) const;

  void keep_top_n_sigma(float n);
  void keep_top_k(size_t k);
  void keep_typical(float p);
  void keep_top_p(float p);
  void keep_min_p(float p);
  void exclude_top_choices(const SamplingParams& params, uint64_t position);
  void apply_temperature(const SamplingParams& params);
  void divide_by(float temperature);
  void keep_largest();
  size_t mirostat_top_k(float mu, size_t n_vocab) const;
  TokenId sample_mirostat(const Input& input);

  template <class Less>
  void keep_until(double limit, const Less& less);
  const Candidate& draw(const SamplingParams& params, uint64_t position, double total) const;

  std::vector<Candidate> candidates_;  // never empty after the first sampler
};

}  // namespace kvik
