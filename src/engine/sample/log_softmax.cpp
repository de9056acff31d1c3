#include "engine/sample/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tensor/largest.h"

namespace kvik {
namespace {

constexpr size_t kTokensPerBlock = 64;

}  // namespace

// The sum is in double and in ascending order of id, so that it is always the same.
LogSoftmax::LogSoftmax(std::span<const float> logits) : logits_(logits) {
  const float peak = largest_finite(logits);
  double sum = 0;
  for (const float logit : logits) {
    if (std::isfinite(logit)) sum += std::exp(static_cast<double>(logit) - peak);
  }
  log_sum_ = peak + std::log(sum);
}

// The n largest of the blocks' largest logits bound the result from below.
std::vector<TokenLogprob> LogSoftmax::top(uint32_t n) const {
  if (n == 0) return {};
  std::vector<float> largest;
  for (size_t begin = 0; begin < logits_.size(); begin += kTokensPerBlock) {
    const size_t size = std::min(kTokensPerBlock, logits_.size() - begin);
    largest.push_back(largest_finite(logits_.subspan(begin, size)));
  }
  float least = -std::numeric_limits<float>::infinity();
  if (n <= largest.size()) {
    std::vector<float> ranked = largest;
    const auto last = ranked.begin() + static_cast<ptrdiff_t>(n - 1);
    std::nth_element(ranked.begin(), last, ranked.end(), std::greater<>());
    least = rounded(*last);
  }
  std::vector<TokenLogprob> all;
  for (size_t b = 0; b < largest.size(); ++b) {
    if (rounded(largest[b]) < least) continue;
    const size_t end = std::min((b + 1) * kTokensPerBlock, logits_.size());
    for (size_t id = b * kTokensPerBlock; id < end; ++id) {
      if (!std::isfinite(logits_[id]) || of(static_cast<TokenId>(id)) < least) continue;
      all.push_back({static_cast<TokenId>(id), of(static_cast<TokenId>(id))});
    }
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
