#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/token_id.h"

namespace kvik {

// A bit per token of a vocabulary that says whether the token is allowed next. Token i is bit i %
// 64 of word i / 64; the last word is padded with zeros.
class TokenBitmask {
 public:
  static constexpr uint32_t kWordBits = 64;

  TokenBitmask() = default;  // mask without a vocabulary
  // Allows no token.
  explicit TokenBitmask(uint32_t n_tokens)
      : n_tokens_(n_tokens), words_((size_t{n_tokens} + kWordBits - 1) / kWordBits) {}

  uint32_t n_tokens() const { return n_tokens_; }
  std::span<const uint64_t> words() const { return words_; }

  // Returns false for a token outside the vocabulary.
  bool allows(TokenId id) const {
    return id < n_tokens_ && (words_[id / kWordBits] >> id % kWordBits & 1) != 0;
  }
  // The token must be in the vocabulary.
  void allow(TokenId id) { words_[id / kWordBits] |= bit(id); }
  void forbid(TokenId id) { words_[id / kWordBits] &= ~bit(id); }
  void set(TokenId id, bool allowed) { allowed ? allow(id) : forbid(id); }

  // Allow exactly these tokens.
  void allow_none() { std::ranges::fill(words_, 0); }
  void allow_first(uint32_t n_tokens) {
    allow_none();
    const uint32_t n = std::min(n_tokens, n_tokens_);
    std::fill_n(words_.begin(), n / kWordBits, ~uint64_t{0});
    if (n % kWordBits > 0) words_[n / kWordBits] = bit(n) - 1;
  }
  // Copies the other mask. Tokens that only one of the vocabularies has are forbidden.
  void allow_those_of(const TokenBitmask& other) {
    const size_t n = std::min(words_.size(), other.words_.size());
    std::fill(std::copy_n(other.words_.begin(), n, words_.begin()), words_.end(), 0);
    if (n_tokens_ % kWordBits > 0) words_.back() &= bit(n_tokens_) - 1;
  }
  // Additionally allows the tokens of the other mask.
  void allow_too(const TokenBitmask& other) {
    CHECK(other.n_tokens_ <= n_tokens_);
    for (size_t w = 0; w < other.words_.size(); ++w) words_[w] |= other.words_[w];
  }

  friend bool operator==(const TokenBitmask&, const TokenBitmask&) = default;

 private:
  static constexpr uint64_t bit(TokenId id) { return uint64_t{1} << id % kWordBits; }

  uint32_t n_tokens_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace kvik
