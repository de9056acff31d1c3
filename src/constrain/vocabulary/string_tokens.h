#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token_bitmask.h"
#include "constrain/vocabulary/token_tree.h"

namespace kvik::constrain {

// Tokens within a JSON string in which any character is allowed: those that remain inside, and
// those that end it, grouped by the text after the quote (their tail). Most masks of JSON are for
// such positions, and each tail is parsed once for all its tokens. Immutable; thread-safe.
class StringTokens {
 public:
  StringTokens() = default;
  // The texts of the tokens; empty texts are ignored.
  explicit StringTokens(const std::vector<std::string>& tokens);

  static constexpr uint32_t kAnyNumber = ~uint32_t{0};

  // Sets `allowed` to the tokens that remain inside and have at most `max_characters`, including
  // incomplete ones.
  void copy_inside(uint32_t max_characters, TokenBitmask& allowed) const;

  using Tail = uint32_t;
  static constexpr Tail kNoTail = 0;  // nothing after the quote
  size_t n_tails() const { return first_.size() - 1; }
  // The other tails as a tree of their texts.
  const TokenTree& tails() const { return tails_; }

  // A token that ends the string, with the number of characters before the quote.
  struct Ending {
    TokenId token;
    uint32_t n_characters;
  };
  std::span<const Ending> with_tail(Tail tail) const {
    return std::span(endings_).subspan(first_[tail], first_[tail + 1] - first_[tail]);
  }

 private:
  static constexpr uint32_t kMaxMasks = 48;

  struct Inside {
    TokenId token;
    uint32_t n_characters;
  };
  // indexed by the maximum number of characters; all tokens at the last index
  std::vector<TokenBitmask> inside_;
  std::vector<Inside> long_;  // tokens with at least kMaxMasks characters, ascending
  TokenTree tails_;
  std::vector<Ending> endings_;  // by tail
  std::vector<uint32_t> first_;  // start of each tail in endings_; the size at the end
};

}  // namespace kvik::constrain
