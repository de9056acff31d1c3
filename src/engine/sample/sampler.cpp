#include "engine/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "tensor/largest.h"

namespace kvik {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Returns log(Σ exp(logit)) in double, in ascending order of id, so that the result is always the
// same. Skips values that are not finite, as sampling does.
double log_sum_exp(std::span<const float> logits) {
  float peak = kNever;
  for (const float logit : logits) peak = std::isfinite(logit) ? std::max(peak, logit) : peak;
  double sum = 0;
  for (const float logit : logits) {
    if (std::isfinite(logit)) sum += std::exp(static_cast<double>(logit) - peak);
  }
  return peak + std::log(sum);
}

}  // namespace

double uniform_draw(uint64_t seed, uint32_t choice_index, uint64_t position) {
  const uint64_t bits = mix(mix(mix(seed) ^ choice_index) ^ position);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Sampler::Sampler(uint32_t n_vocab) : logits_(n_vocab) { candidates_.reserve(n_vocab); }

bool Sampler::heavier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

std::optional<TokenId> Sampler::sample(const Input& input) {
  CHECK(input.logits.size() == logits_.size());
  adjust(input);
  if (input.next_tokens && input.params.temperature == 0) {
    // The likeliest token is usually allowed, and then no mask is needed.
    const std::optional<TokenId> argmax = index_of_largest(logits_);
    if (!argmax || input.next_tokens->allows(*argmax)) return argmax;
  }
  if (input.next_tokens) apply_mask(input.next_tokens->mask());
  const std::optional<TokenId> best = index_of_largest(logits_);
  if (!best || input.params.temperature == 0) return best;
  return draw(input.params, input.position, *best);
}

void Sampler::adjust(const Input& input) {
  std::copy(input.logits.begin(), input.logits.end(), logits_.begin());
  const SamplingParams& p = input.params;
  for (const auto& [id, bias] : p.logit_bias) logits_[id] += bias;
  if (has_penalties(p)) {
    for (const auto& [id, count] : input.counts.all()) {
      float& logit = logits_[id];
      logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
      if (count.in_answer == 0) continue;
      logit -= p.presence_penalty;
      logit -= p.frequency_penalty * static_cast<float>(count.in_answer);
    }
  }
  for (const TokenId id : input.masked) logits_[id] = kNever;
}

void Sampler::apply_mask(const TokenBitmask& mask) {
  CHECK(mask.n_tokens() == logits_.size());
  const std::span<const uint64_t> words = mask.words();
  for (size_t w = 0; w < words.size(); ++w) {
    const size_t begin = w * TokenBitmask::kWordBits;
    const size_t end = std::min(begin + TokenBitmask::kWordBits, logits_.size());
    if (words[w] == 0) {
      std::fill(logits_.begin() + static_cast<ptrdiff_t>(begin),
                logits_.begin() + static_cast<ptrdiff_t>(end), kNever);
      continue;
    }
    for (size_t id = begin; id < end; ++id) {
      if ((words[w] >> (id - begin) & 1) == 0) logits_[id] = kNever;
    }
  }
}

TokenId Sampler::draw(const SamplingParams& params, uint64_t position, TokenId best) {
  const float peak = logits_[best];
  candidates_.clear();
  for (TokenId id = 0; id < logits_.size(); ++id) {
    // Skipped as in index_of_largest(): an infinity would outweigh all other tokens.
    if (!std::isfinite(logits_[id])) continue;
    const float weight = std::exp((logits_[id] - peak) / params.temperature);
    if (weight > 0 && weight >= params.min_p) candidates_.push_back({id, weight});
  }
  if (params.top_k > 0) keep_top_k(params.top_k);
  if (params.top_p < 1) keep_top_p(params.top_p);

  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  double left = uniform_draw(params.seed, params.choice_index, position) * total;
  for (const Candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates_.empty() ? best : candidates_.back().id;
}

void Sampler::keep_top_k(uint32_t k) {
  if (k >= candidates_.size()) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), heavier);
  candidates_.resize(k);
  // nth_element() leaves an unspecified order; the draw needs a fixed one.
  std::sort(candidates_.begin(), candidates_.end(), heavier);
}

// Keeps the smallest set of the most likely candidates whose weights reach p of the total (Holtzman
// et al. 2020). Sorts a growing prefix, because the nucleus is small and the vocabulary is large.
void Sampler::keep_top_p(float p) {
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  double sum = 0;
  size_t n_sorted = 0;
  for (size_t n_kept = 0; n_kept < candidates_.size(); ++n_kept) {
    if (n_kept == n_sorted) {
      const size_t wanted = std::min(candidates_.size(), std::max<size_t>(64, n_sorted * 8));
      const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(n_sorted);
      const auto end = candidates_.begin() + static_cast<ptrdiff_t>(wanted);
      std::partial_sort(begin, end, candidates_.end(), heavier);
      n_sorted = wanted;
    }
    sum += candidates_[n_kept].weight;
    if (sum >= p * total) {
      candidates_.resize(n_kept + 1);
      return;
    }
  }
}

TokenLogprob logprob_of(std::span<const float> logits, TokenId id) {
  return {id, static_cast<float>(logits[id] - log_sum_exp(logits))};
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, uint32_t n) {
  std::vector<TokenLogprob> all;
  const double log_sum = log_sum_exp(logits);
  for (TokenId id = 0; id < logits.size(); ++id) {
    if (!std::isfinite(logits[id])) continue;
    all.push_back({id, static_cast<float>(logits[id] - log_sum)});
  }
  const auto end = all.begin() + static_cast<ptrdiff_t>(std::min<size_t>(n, all.size()));
  std::partial_sort(all.begin(), end, all.end(), [](const auto& a, const auto& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  });
  all.erase(end, all.end());
  return all;
}

uint32_t rank_of(std::span<const float> logits, TokenId id) {
  uint32_t rank = 1;
  for (TokenId other = 0; other < logits.size(); ++other)
    rank += logits[other] > logits[id] || (logits[other] == logits[id] && other < id);
  return rank;
}

}  // namespace kvik
