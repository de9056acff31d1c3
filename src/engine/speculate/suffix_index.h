#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// A position in a list of tokens, and the number of tokens before it that match.
struct SuffixMatch {
  uint32_t next = 0;  // position of the token after the match
  uint32_t n_matched = 0;
};

// Finds earlier occurrences of the last tokens in a growing list. As in LZ77 compressors, chains
// link the positions at which the same few tokens end. Takes 8 bytes a token plus the heads of the
// chains. A lookup examines at most kTries positions, the newest first.
class SuffixIndex {
 public:
  static constexpr uint32_t kLongest = 64;  // longest match that is counted

  // n_tokens is the expected length of the list.
  explicit SuffixIndex(uint64_t n_tokens);

  // Returns the most bytes that an index of n_tokens takes.
  static uint64_t max_bytes(uint64_t n_tokens);

  // Finds the longest suffix of `tokens` that occurred earlier; of several, the newest. n_matched
  // is 0 if not even the last two tokens did. `tokens` must extend the list of the last call.
  SuffixMatch find(std::span<const TokenId> tokens);

  // Returns the number of equal tokens before `a` and before `b`, at most kLongest.
  static uint32_t common_suffix(std::span<const TokenId> tokens, uint32_t a, uint32_t b);

 private:
  static constexpr uint32_t kTries = 16;
  static constexpr uint32_t kNone = UINT32_MAX;

  // Chains of the positions at which the same n tokens end.
  struct Chains {
    uint32_t n = 0;
    std::vector<uint32_t> heads;   // newest position of each hash
    std::vector<uint32_t> before;  // by position: the next older one
    uint32_t head_of(std::span<const TokenId> tokens, uint32_t end) const;
    void add(std::span<const TokenId> tokens, uint32_t end);
    void find(std::span<const TokenId> tokens, SuffixMatch& best) const;
  };
  Chains long_, short_;
  uint32_t n_known_ = 0;  // tokens whose positions are in the chains
};

}  // namespace kvik
