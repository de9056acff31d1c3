#include "engine/sample/logit_adjuster.h"

#include <algorithm>
#include <limits>
#include <ranges>

namespace kvik {
namespace {

float divided(float logit, float penalty) { return logit > 0 ? logit / penalty : logit * penalty; }

// Returns base^exponent, at most the largest float. Multiplications alone give the same bits on
// every processor.
double power(double base, uint32_t exponent) {
  double result = 1;
  for (double square = base; exponent > 0; exponent >>= 1, square *= square) {
    if (exponent % 2 == 1) result *= square;
    if (result > std::numeric_limits<float>::max()) return std::numeric_limits<float>::max();
  }
  return result;
}

// Returns the number of newest tokens after the newest breaker.
size_t n_after_breaker(const DryBreakers& breakers, std::span<const TokenId> newest_first) {
  for (size_t i = 0; i < newest_first.size(); ++i) {
    const auto found = breakers.find(newest_first[i]);
    if (found == breakers.end()) continue;
    std::optional<size_t> longest;
    const auto following = newest_first.first(i) | std::views::reverse;
    for (const std::vector<TokenId>& tail : found->second) {
      const bool is_there =
          tail.size() <= i && std::ranges::equal(tail, following | std::views::take(tail.size()));
      if (is_there) longest = std::max(longest.value_or(0), tail.size());
    }
    if (longest) return i - *longest;
  }
  return newest_first.size();
}

// Returns whether the token alone ends repetitions. Such tokens have no penalty.
bool is_breaker(const DryBreakers& breakers, TokenId token) {
  const auto found = breakers.find(token);
  return found != breakers.end() &&
         std::ranges::any_of(found->second, [](const auto& tail) { return tail.empty(); });
}

}  // namespace

void LogitAdjuster::penalize_tokens(const SamplingParams& params, const TokenHistory& history,
                                    std::span<float> logits) {
  if (!has_penalties(params)) return;
  const float repetition = params.repetition_penalty, presence = params.presence_penalty,
              frequency = params.frequency_penalty;
  const auto penalize = [=](TokenId id, uint32_t n_counted) {
    float& logit = logits[id];
    logit = divided(logit, repetition);
    if (n_counted == 0) return;
    logit -= presence;
    logit -= frequency * static_cast<float>(n_counted);
  };
  if (params.penalty_last_n == UINT32_MAX) {
    for (const auto& [id, count] : history.counts.all()) penalize(id, count.in_answer);
    return;
  }
  count_newest(history.tokens.last(std::min<size_t>(history.tokens.size(), params.penalty_last_n)));
  for (const auto& [id, n] : numbers_) penalize(id, n);
}

void LogitAdjuster::count_newest(std::span<const TokenId> tokens) {
  numbers_.clear();
  for (const TokenId id : tokens) ++numbers_[id];
}

// Fills repeated_: at place k, the number of newest tokens that also stand before the k newest
// ones, at most `limit`. (Z algorithm, Gusfield 1997)
void LogitAdjuster::find_repetitions(size_t limit) {
  const std::vector<TokenId>& t = newest_first_;
  repeated_.assign(t.size(), 0);
  size_t left = 0, right = 0;  // the range that matches the beginning and ends last
  for (size_t k = 1; k < t.size(); ++k) {
    size_t n = k < right ? std::min<size_t>(repeated_[k - left], right - k) : 0;
    while (k + n < t.size() && t[n] == t[k + n]) ++n;
    repeated_[k] = static_cast<uint32_t>(n);
    if (k + n > right) {
      left = k;
      right = k + n;
    }
  }
  for (uint32_t& n : repeated_) n = static_cast<uint32_t>(std::min<size_t>(n, limit));
}

void LogitAdjuster::penalize_repetitions(const DryParams& dry, std::span<const TokenId> tokens,
                                         std::span<float> logits) {
  if (!dry.is_on()) return;
  const size_t n = std::min<size_t>(tokens.size(), dry.last_n);
  if (n <= dry.allowed_length) return;
  newest_first_.assign(tokens.rbegin(), tokens.rbegin() + static_cast<ptrdiff_t>(n));
  static const DryBreakers kNone;
  const DryBreakers& breakers = dry.breakers ? *dry.breakers : kNone;
  const size_t limit = n_after_breaker(breakers, newest_first_);
  if (limit < dry.allowed_length) return;
  find_repetitions(limit);
  numbers_.clear();
  for (size_t k = 1; k < n; ++k) {
    if (repeated_[k] < dry.allowed_length) continue;
    uint32_t& longest = numbers_[newest_first_[k - 1]];
    longest = std::max(longest, repeated_[k]);
  }
  for (const auto& [id, length] : numbers_) {
    if (is_breaker(breakers, id)) continue;
    const double penalty = dry.multiplier * power(dry.base, length - dry.allowed_length);
    logits[id] -=
        static_cast<float>(std::min<double>(penalty, std::numeric_limits<float>::max() / 2));
  }
}

void LogitAdjuster::ban(const SamplingParams& params, const TokenHistory& history,
                        std::span<float> logits) {
  replaced_.clear();
  const std::span<const TokenId> answer = history.tokens.subspan(history.n_prompt);
  for (const std::vector<TokenId>& banned : params.banned) {
    const std::span<const TokenId> before = std::span(banned).first(banned.size() - 1);
    if (before.size() > answer.size() || !std::ranges::equal(before, answer.last(before.size())))
      continue;
    float& logit = logits[banned.back()];
    replaced_.emplace_back(banned.back(), logit);
    logit = -std::numeric_limits<float>::infinity();
  }
}

void LogitAdjuster::restore(std::span<float> logits) const {
  // In reverse: a token that was banned twice gets its first value.
  for (const auto& [id, logit] : replaced_ | std::views::reverse) logits[id] = logit;
}

}  // namespace kvik
