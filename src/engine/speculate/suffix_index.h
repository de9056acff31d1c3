#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// A place in a list of tokens, and how many tokens before it are the same as those before another.
struct SuffixMatch {
  uint32_t next = 0;  // the token that stood behind
  uint32_t n_matched = 0;
};

// Where stretches of a growing list of tokens stood before: as in LZ77 compressors, chains of the
// places at which the same few tokens end. Takes 8 bytes a token and the heads of the chains; a
// look-up looks at kTries places at most, the newest first.
class SuffixIndex {
 public:
  static constexpr uint32_t kLongest = 64;  // matches are not followed further back

  // For a list of about so many tokens.
  explicit SuffixIndex(uint64_t n_tokens);

  // What one for so many tokens takes, at most.
  static uint64_t most_bytes(uint64_t n_tokens);

  // The longest suffix of `tokens` that stood in them before, the newest of the longest; n_matched
  // is 0 where the last two tokens never did. The list is the one of the last call, longer.
  SuffixMatch find(std::span<const TokenId> tokens);

  // How many tokens before `a` and before `b` are the same, kLongest at most.
  static uint32_t common_suffix(std::span<const TokenId> tokens, uint32_t a, uint32_t b);

 private:
  static constexpr uint32_t kTries = 16;
  static constexpr uint32_t kNone = UINT32_MAX;

  // The places where the same n tokens end.
  struct Chains {
    uint32_t n = 0;
    std::vector<uint32_t> heads;   // the newest of each hash
    std::vector<uint32_t> before;  // by place: the next older one
    uint32_t head_of(std::span<const TokenId> tokens, uint32_t end) const;
    void add(std::span<const TokenId> tokens, uint32_t end);
    void find(std::span<const TokenId> tokens, SuffixMatch& best) const;
  };
  Chains long_, short_;
  uint32_t n_known_ = 0;  // tokens whose places are in the chains
};

}  // namespace kvik
