#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token_bitmask.h"
#include "constrain/vocabulary/token_tree.h"

namespace kvik::constrain {

// Tokens as they are read between the quotes of a JSON string, where any character may come: those
// that stay inside, and those that end it, by what they say behind the quote (their tail). Most
// masks of JSON are of such places, and a tail is read once for all tokens that have it.
// Immutable: any thread.
class StringTokens {
 public:
  StringTokens() = default;
  // Texts by token; an empty one is of no token.
  explicit StringTokens(const std::vector<std::string>& tokens);

  static constexpr uint32_t kAnyNumber = ~uint32_t{0};

  // Allows the tokens inside that have up to so many characters, begun ones counted, and no others.
  void copy_inside(uint32_t max_characters, TokenBitmask& allowed) const;

  using Tail = uint32_t;
  static constexpr Tail kNoTail = 0;  // ends with the quote
  size_t n_tails() const { return first_.size() - 1; }
  // The other tails, by their texts.
  const TokenTree& tails() const { return tails_; }

  // A token that ends the string, and how many characters it has before the quote.
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
  std::vector<TokenBitmask> inside_;  // by the number of characters at most; all at last
  std::vector<Inside> long_;          // of at least kMaxMasks, ascending
  TokenTree tails_;
  std::vector<Ending> endings_;  // by tail
  std::vector<uint32_t> first_;  // by tail: place in endings_; the end at last
};

}  // namespace kvik::constrain
