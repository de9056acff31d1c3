#include "engine/sample/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "engine/sample/weight_of.h"
#include "tensor/largest.h"

namespace kvik {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNever = -kInfinite;

// Returns a block of adjacent tokens.
template <class T>
std::span<T> block_of(std::span<T> values, size_t number, size_t block) {
  const size_t begin = number * block;
  return values.subspan(begin, std::min(block, values.size() - begin));
}

}  // namespace

Sampler::Sampler(uint32_t n_vocab)
    : values_(n_vocab),
      largest_(n_blocks(n_vocab)),
      sums_(n_blocks(n_vocab)),
      ranked_(n_blocks(n_vocab)),
      sorted_(n_vocab),
      ordered_(n_vocab) {
  candidates_.reserve(n_vocab);
}

bool Sampler::heavier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

std::optional<TokenId> Sampler::sample(const Input& input) {
  CHECK(input.logits.size() == values_.size());
  std::span<const float> logits = adjusted(input);
  const bool in_order = runs_in_order(input.params);
  const bool is_greedy = input.params.temperature == 0 && !in_order;
  if (input.next_tokens) {
    if (is_greedy) {
      // The likeliest token is usually allowed, and then no mask is needed.
      const std::optional<TokenId> argmax = index_of_largest(logits);
      if (!argmax || input.next_tokens->allows(*argmax)) return argmax;
    }
    if (logits.data() != values_.data()) std::ranges::copy(logits, values_.begin());
    logits = values_;
    apply_constraint(input);
  }
  if (is_greedy) return index_of_largest(logits);
  if (!in_order) return draw(logits, input.params, input.position);
  return ordered_.sample({.logits = values_,
                          .params = input.params,
                          .history = input.history,
                          .position = input.position,
                          .adjuster = adjuster_,
                          .mirostat_mu = input.mirostat_mu});
}

// Returns the logits after bias, penalties and masks, without a copy if there are none. An
// OrderedSampler subtracts penalties itself, and needs a copy.
std::span<const float> Sampler::adjusted(const Input& input) {
  const SamplingParams& p = input.params;
  if (keeps_argmax(p) && input.masked.empty()) return input.logits;
  std::ranges::copy(input.logits, values_.begin());
  for (const auto& [id, bias] : p.logit_bias) values_[id] += bias;
  if (!runs_in_order(p)) {
    adjuster_.penalize_tokens(p, input.history, values_);
    adjuster_.penalize_repetitions(p.dry, input.history.tokens, values_);
  }
  adjuster_.ban(p, input.history, values_);
  for (const TokenId id : input.masked) values_[id] = kNever;
  return values_;
}

// Masks the tokens that the constraint forbids. If only banned tokens would be left, they are
// allowed.
void Sampler::apply_constraint(const Input& input) {
  const TokenBitmask& mask = input.next_tokens->mask();
  apply_mask(mask);
  if (input.params.banned.empty() || largest_finite(values_) != kNever) return;
  adjuster_.restore(values_);
  for (const TokenId id : input.masked) values_[id] = kNever;
  apply_mask(mask);
}

void Sampler::apply_mask(const TokenBitmask& mask) {
  CHECK(mask.n_tokens() == values_.size());
  const std::span<const uint64_t> words = mask.words();
  for (size_t w = 0; w < words.size(); ++w) {
    const size_t begin = w * TokenBitmask::kWordBits;
    const size_t end = std::min(begin + TokenBitmask::kWordBits, values_.size());
    if (words[w] == 0) {
      std::fill(values_.begin() + static_cast<ptrdiff_t>(begin),
                values_.begin() + static_cast<ptrdiff_t>(end), kNever);
      continue;
    }
    for (size_t id = begin; id < end; ++id) {
      if ((words[w] >> (id - begin) & 1) == 0) values_[id] = kNever;
    }
  }
}

std::optional<TokenId> Sampler::draw(std::span<const float> logits, const SamplingParams& params,
                                     uint64_t position) {
  for (size_t b = 0; b < largest_.size(); ++b) {
    largest_[b] = largest_finite(block_of(logits, b, kBlock));
  }
  const float peak = *std::ranges::max_element(largest_);
  if (peak == kNever) return std::nullopt;
  double total = weigh(logits, params, peak);
  const double uniform = uniform_draw(params.seed, params.choice_index, position);
  if (params.top_k == 0 && params.top_p == 1) return draw_token(uniform * total);
  candidates_.clear();
  if (params.top_k == 0) {
    collect_top_p(params.top_p * total);
  } else {
    collect(0, kInfinite);
    keep_top_k(params.top_k);
    double sum = 0;
    if (params.top_p < 1) keep_top_p(params.top_p * sum_of_candidates(), 0, sum);
  }
  return draw_candidate(uniform * sum_of_candidates());
}

// Computes the weights of the candidates and returns their sum.
double Sampler::weigh(std::span<const float> logits, const SamplingParams& params, float peak) {
  const Temperature t{peak, params.temperature};
  for (float& largest : largest_) largest = weight_of(t.scaled(largest));
  const float least = min_weight(params);
  double total = 0;
  for (size_t b = 0; b < largest_.size(); ++b) {
    sums_[b] = 0;
    if (largest_[b] < least) {
      largest_[b] = 0;
      continue;
    }
    const std::span<const float> from = block_of(logits, b, kBlock);
    const std::span<float> to = block_of(std::span(values_), b, kBlock);
    if (from.size() == kBlock) {
      sums_[b] = weigh_block_(from.first<kBlock>(), t, least, to.first<kBlock>());
    } else {
      std::array<float, kBlock> last;
      std::fill(std::ranges::copy(from, last.begin()).out, last.end(), kNever);
      sums_[b] = weigh_block_(last, t, least, last);
      std::ranges::copy(std::span(last).first(to.size()), to.begin());
    }
    total += sums_[b];
  }
  return total;
}

// Returns a lower bound of the weights of candidates: min_p, and a weight that more than k tokens
// reach, as the blocks' largest weights show. Then keep_top_k() has the same candidates to remove
// but fewer, and finds more than k exactly if there are more than k.
float Sampler::min_weight(const SamplingParams& params) {
  const float least = std::max(params.min_p, std::numeric_limits<float>::denorm_min());
  if (params.top_k == 0 || params.top_k >= largest_.size()) return least;
  std::ranges::copy(largest_, ranked_.begin());
  const auto place = ranked_.begin() + params.top_k;
  std::nth_element(ranked_.begin(), place, ranked_.end(), std::greater<>());
  return std::max(least, *place);
}

// Appends the candidates whose weights are in [least, below), in ascending order of id.
void Sampler::collect(float least, float below) {
  for (size_t b = 0; b < largest_.size(); ++b) {
    if (largest_[b] == 0 || largest_[b] < least) continue;
    float weights[kBlock] = {};
    std::ranges::copy(block_of(std::span<const float>(values_), b, kBlock), weights);
    // Few weights of a block are wanted, so they are marked first, in a loop that is vectorized.
    uint8_t is_found[kBlock];
    for (size_t i = 0; i < kBlock; ++i) {
      const bool is_candidate = weights[i] > 0;
      is_found[i] = is_candidate & (weights[i] >= least) & (weights[i] < below);
    }
    for (size_t begin = 0; begin < kBlock; begin += sizeof(uint64_t)) {
      uint64_t eight = 0;
      std::memcpy(&eight, is_found + begin, sizeof(eight));
      for (; eight != 0; eight &= eight - 1) {
        const size_t i = begin + static_cast<size_t>(std::countr_zero(eight)) / 8;
        candidates_.push_back({static_cast<TokenId>(b * kBlock + i), weights[i]});
      }
    }
  }
}

// Sorts the candidates from `first` on, the heaviest first. Their ids must be in ascending order.
void Sampler::sort_candidates(size_t first) {
  const std::span<Candidate> candidates = std::span(candidates_).subspan(first);
  constexpr size_t kMinForRadixSort = 128;
  if (candidates.size() < kMinForRadixSort) {
    std::ranges::sort(candidates, heavier);
    return;
  }
  // A stable radix sort. The bits of weights, which are in (0, 1], are ordered as integers are.
  constexpr uint32_t kDigitBits = 10;
  constexpr uint32_t kRadix = 1 << kDigitBits;
  constexpr uint32_t kDigits = 3;
  const auto digit = [](const Candidate& c, uint32_t place) {
    return ~std::bit_cast<uint32_t>(c.weight) >> place * kDigitBits & (kRadix - 1);
  };
  std::array<std::array<uint32_t, kRadix>, kDigits> next{};  // by digit: the next one's place
  for (const Candidate& c : candidates) {
    for (uint32_t place = 0; place < kDigits; ++place) ++next[place][digit(c, place)];
  }
  std::span<Candidate> from = candidates;
  std::span<Candidate> to = std::span(sorted_).first(candidates.size());
  for (uint32_t place = 0; place < kDigits; ++place) {
    std::exclusive_scan(next[place].begin(), next[place].end(), next[place].begin(), 0u);
    for (const Candidate& c : from) to[next[place][digit(c, place)]++] = c;
    std::swap(from, to);
  }
  std::ranges::copy(from, candidates.begin());
}

void Sampler::keep_top_k(uint32_t k) {
  if (k >= candidates_.size()) return;
  sort_candidates(0);
  candidates_.resize(k);
}

// Collects the smallest set of the most likely tokens whose weights reach the limit (Holtzman et
// al. 2020), the heaviest tokens first: the nucleus is small and the vocabulary is large.
void Sampler::collect_top_p(double limit) {
  constexpr float kStep = 0x1p-7f;
  double sum = 0;
  float below = kInfinite;
  for (float least = kStep; below > 0; least *= kStep) {
    const size_t first = candidates_.size();
    collect(least, below);
    if (keep_top_p(limit, first, sum)) return;
    below = least;
  }
}

// Adds the weights of the candidates from `first` on to the sum, the heaviest first, and removes
// those after the one with which it reaches the limit. Returns false if it does not.
bool Sampler::keep_top_p(double limit, size_t first, double& sum) {
  sort_candidates(first);
  for (size_t i = first; i < candidates_.size(); ++i) {
    sum += candidates_[i].weight;
    if (sum >= limit) {
      candidates_.resize(i + 1);
      return true;
    }
  }
  return false;
}

double Sampler::sum_of_candidates() const {
  double sum = 0;
  for (const Candidate& c : candidates_) sum += c.weight;
  return sum;
}

// Returns the candidate at which the weights, subtracted one after the other, make `left` negative.
TokenId Sampler::draw_candidate(double left) const {
  for (const Candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates_.back().id;
}

// Returns the token at which the sums of the blocks and then the weights of one, subtracted one
// after the other, make `left` negative.
TokenId Sampler::draw_token(double left) const {
  size_t last = 0;
  for (size_t b = 0; b < sums_.size(); ++b) {
    if (sums_[b] == 0) continue;
    if (left >= sums_[b]) {
      left -= sums_[b];
      last = b;
      continue;
    }
    const std::span<const float> weights = block_of(std::span<const float>(values_), b, kBlock);
    for (size_t i = 0; i < weights.size(); ++i) {
      left -= weights[i];
      if (left < 0) return static_cast<TokenId>(b * kBlock + i);
    }
    last = b;  // the sums were rounded differently
    break;
  }
  const std::span<const float> weights = block_of(std::span<const float>(values_), last, kBlock);
  size_t i = weights.size() - 1;
  while (weights[i] == 0) --i;
  return static_cast<TokenId>(last * kBlock + i);
}

}  // namespace kvik
