#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token_bitmask.h"
#include "constrain/vocabulary/token_tree.h"

namespace kvik::constrain {

// The tokens for a position within a JSON string in which any character is allowed: tokens that
// stay within the string, and tokens that end it, grouped by their text after the quote (their
// tail). Most masks for JSON are for such positions, and a tail is parsed once for all its tokens.
// Immutable; thread-safe.
class StringTokens {
 public:
  StringTokens() = default;
  // Takes the texts of the tokens by id. Empty texts are ignored.
  explicit StringTokens(const std::vector<std::string>& tokens);

  static constexpr uint32_t kAnyNumber = ~uint32_t{0};

  // Sets `allowed` to the tokens that stay within the string and have at most `max_characters`
  // characters, including an incomplete one.
  void copy_inside(uint32_t max_characters, TokenBitmask& allowed) const;

  using Tail = uint32_t;
  static constexpr Tail kNoTail = 0;  // the tail without text
  size_t n_tails() const { return first_.size() - 1; }
  // Returns the other tails as a trie of their texts.
  const TokenTree& tails() const { return tails_; }

  // A token that ends the string, and its number of characters before the quote.
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
  // masks by the maximum number of characters; the last one has all tokens
  std::vector<TokenBitmask> inside_;
  std::vector<Inside> long_;  // tokens with at least kMaxMasks characters, ascending
  TokenTree tails_;
  std::vector<Ending> endings_;  // grouped by tail
  std::vector<uint32_t> first_;  // offset of each tail in endings_, then the size
};

}  // namespace kvik::constrain
