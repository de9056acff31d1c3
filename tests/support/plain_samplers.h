#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/request/sampling_params.h"

namespace kvik {

// The candidates that llama.cpp's samplers leave, by their formulas in doubles. XTC acts if its
// probability is not 0. Ties go to the lower id.
class PlainSamplers {
 public:
  PlainSamplers(std::span<const float> logits, const SamplingParams& params,
                std::span<const TokenId> tokens)
      : p_(params), tokens_(tokens) {
    for (TokenId id = 0; id < logits.size(); ++id) all_.push_back({id, logits[id]});
    for (const SamplerKind kind : *params.order) run(kind);
  }

  bool has(TokenId id) const { return std::ranges::find(all_, id, &Candidate::id) != all_.end(); }

  // Returns the token of a number in [0, 1).
  TokenId draw(double uniform) const {
    const std::vector<double> shares = probabilities();
    for (size_t i = 0; i < all_.size(); ++i) {
      uniform -= shares[i];
      if (uniform < 0) return all_[i].id;
    }
    return all_.back().id;
  }

 private:
  struct Candidate {
    TokenId id;
    double logit;
  };

  std::vector<double> probabilities() const {
    const double peak = std::ranges::max_element(all_, {}, &Candidate::logit)->logit;
    std::vector<double> shares;
    double sum = 0;
    for (const Candidate& c : all_) sum += shares.emplace_back(std::exp(c.logit - peak));
    for (double& share : shares) share /= sum;
    return shares;
  }

  // Keeps those candidates of the order up to the one with which the sum ends.
  template <class Order, class Ends>
  void keep_first(const Order& order, const Ends& ends) {
    const std::vector<double> shares = probabilities();
    std::vector<size_t> places(all_.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = i;
    std::ranges::stable_sort(places, [&](size_t a, size_t b) {
      const double at_a = order(a), at_b = order(b);
      return at_a != at_b ? at_a < at_b : all_[a].id < all_[b].id;
    });
    std::vector<Candidate> kept;
    double sum = 0;
    for (const size_t place : places) {
      kept.push_back(all_[place]);
      sum += shares[place];
      if (ends(sum)) break;
    }
    all_ = std::move(kept);
  }

  static double entropy_of(const std::vector<double>& shares) {
    double entropy = 0;
    for (const double share : shares) entropy -= share > 0 ? share * std::log(share) : 0;
    return entropy;
  }

  void divide_by(double temperature) {
    if (temperature == 0) {
      keep_first([&](size_t i) { return -all_[i].logit; }, [](double) { return true; });
    } else {
      for (Candidate& c : all_) c.logit /= temperature;
    }
  }

  void run(SamplerKind kind) {
    switch (kind) {
      case SamplerKind::kPenalties:
        return penalize();
      case SamplerKind::kDry:
        return penalize_repetitions();
      case SamplerKind::kTopNSigma:
        return keep_top_n_sigma();
      case SamplerKind::kTopK:
        if (p_.top_k > 0 && p_.top_k < all_.size()) {
          size_t n = 0;
          keep_first([&](size_t i) { return -all_[i].logit; },
                     [&](double) { return ++n == p_.top_k; });
        }
        return;
      case SamplerKind::kTypicalP:
        if (p_.typical_p < 1) {
          const std::vector<double> shares = probabilities();
          const double entropy = entropy_of(shares);
          keep_first([&](size_t i) { return std::abs(-std::log(shares[i]) - entropy); },
                     [&](double sum) { return sum > p_.typical_p; });
        }
        return;
      case SamplerKind::kTopP:
        if (p_.top_p < 1) {
          keep_first([&](size_t i) { return -all_[i].logit; },
                     [&](double sum) { return sum >= p_.top_p; });
        }
        return;
      case SamplerKind::kMinP: {
        const double peak = std::ranges::max_element(all_, {}, &Candidate::logit)->logit;
        std::erase_if(all_,
                      [&](const Candidate& c) { return std::exp(c.logit - peak) < p_.min_p; });
        return;
      }
      case SamplerKind::kXtc:
        return exclude_top_choices();
      case SamplerKind::kTemperature:
        return change_temperature();
    }
  }

  void penalize() {
    if (p_.penalty_last_n == 0) return;
    std::map<TokenId, int> counts;
    for (const TokenId token : newest(p_.penalty_last_n)) ++counts[token];
    for (Candidate& c : all_) {
      if (!counts.contains(c.id)) continue;
      const double penalty = p_.repetition_penalty;
      c.logit = c.logit > 0 ? c.logit / penalty : c.logit * penalty;
      c.logit -= p_.presence_penalty + double{p_.frequency_penalty} * counts[c.id];
    }
  }

  std::span<const TokenId> newest(uint32_t n) const {
    return tokens_.last(std::min<size_t>(n, tokens_.size()));
  }

  // Returns the length of the longest repetition that the token would continue, or -1 if it would
  // not continue one of the allowed length. Tries all places.
  int repetition(TokenId next, std::span<const TokenId> t, size_t limit) const {
    int longest = -1;
    for (size_t end = 1; end < t.size(); ++end) {  // an earlier text ends before `end`
      if (t[end] != next) continue;
      size_t n = 0;
      while (n < end && n < limit && t[end - 1 - n] == t[t.size() - 1 - n]) ++n;
      if (n >= p_.dry.allowed_length) longest = std::max(longest, static_cast<int>(n));
    }
    return longest;
  }

  // Returns the number of tokens after the newest breaker.
  size_t n_after_breaker(std::span<const TokenId> t) const {
    if (!p_.dry.breakers) return t.size();
    for (size_t head = t.size(); head-- > 0;) {
      const auto found = p_.dry.breakers->find(t[head]);
      if (found == p_.dry.breakers->end()) continue;
      int longest = -1;
      for (const auto& tail : found->second) {
        const auto rest = t.subspan(head + 1);
        if (tail.size() <= rest.size() && std::ranges::equal(tail, rest.first(tail.size())))
          longest = std::max(longest, static_cast<int>(tail.size()));
      }
      if (longest >= 0) return t.size() - 1 - head - static_cast<size_t>(longest);
    }
    return t.size();
  }

  void penalize_repetitions() {
    if (p_.dry.multiplier == 0 || p_.dry.last_n == 0) return;
    const auto t = newest(p_.dry.last_n);
    const size_t limit = n_after_breaker(t);
    if (t.size() <= p_.dry.allowed_length || limit < p_.dry.allowed_length) return;
    for (Candidate& c : all_) {
      const int n = repetition(c.id, t, limit);
      const bool is_breaker = p_.dry.breakers && p_.dry.breakers->contains(c.id) &&
                              p_.dry.breakers->at(c.id).front().empty();
      if (n < 0 || is_breaker) continue;
      c.logit -=
          p_.dry.multiplier * std::pow(p_.dry.base, n - static_cast<int>(p_.dry.allowed_length));
    }
  }

  void keep_top_n_sigma() {
    if (p_.top_n_sigma <= 0) return;
    const auto n = static_cast<double>(all_.size());
    double mean = 0, variance = 0, peak = all_.front().logit;
    for (const Candidate& c : all_) mean += c.logit / n;
    for (const Candidate& c : all_) variance += (c.logit - mean) * (c.logit - mean) / n;
    for (const Candidate& c : all_) peak = std::max(peak, c.logit);
    const double least = peak - p_.top_n_sigma * std::sqrt(variance);
    std::erase_if(all_, [&](const Candidate& c) { return c.logit < least; });
  }

  void exclude_top_choices() {
    if (p_.xtc.probability == 0 || p_.xtc.threshold > 0.5f) return;
    const std::vector<double> shares = probabilities();
    std::vector<Candidate> top, rest;
    for (size_t i = 0; i < all_.size(); ++i) {
      (shares[i] >= p_.xtc.threshold ? top : rest).push_back(all_[i]);
    }
    if (top.empty()) return;
    const Candidate last = *std::ranges::min_element(top, [](const auto& a, const auto& b) {
      return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
    });
    std::erase_if(all_, [&](const Candidate& c) {
      return c.id != last.id && std::ranges::find(top, c.id, &Candidate::id) != top.end();
    });
  }

  void change_temperature() {
    const double t = p_.temperature, range = p_.dynamic_temperature.range;
    if (range == 0) return divide_by(t);
    if (all_.size() == 1) return;
    const double share = entropy_of(probabilities()) / std::log(static_cast<double>(all_.size()));
    const double least = std::max(0.0, t - range);
    divide_by(least +
              (t + range - least) * std::pow(share, double{p_.dynamic_temperature.exponent}));
  }

  const SamplingParams& p_;
  std::span<const TokenId> tokens_;
  std::vector<Candidate> all_;
};

}  // namespace kvik
