#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token_bitmask.h"
#include "constrain/code_points.h"
#include "constrain/vocabulary/string_tokens.h"
#include "constrain/vocabulary/token_tree.h"
#include "text/tokenizer.h"

namespace kvik::constrain {

// The tokens of a vocabulary as a byte trie, which is walked together with a grammar. Tokens that
// are plain text within a JSON string (complete characters without quote, backslash and control
// characters) form a separate trie, because usually either all or none of them are allowed.
// Immutable; thread-safe.
class VocabularyTrie {
 public:
  // Takes the tokens of a tokenizer except control, unknown, unused and empty tokens, which are
  // never allowed.
  explicit VocabularyTrie(const Tokenizer& tokenizer);
  explicit VocabularyTrie(std::vector<std::string> tokens);

  using Tree = TokenTree;

  const Tree& plain() const { return plain_; }
  const Tree& other() const { return other_; }
  // Returns the trie of all tokens.
  const Tree& all() const { return all_; }
  // Returns the mask of the tokens in plain().
  const TokenBitmask& plain_mask() const { return plain_mask_; }
  // Returns the characters of which plain tokens consist. A plain token has at most
  // kMaxPlainCharacters of them.
  static const CodePointSet& plain_characters();
  static constexpr uint32_t kMaxPlainCharacters = 48;

  // Returns the tokens for positions within a JSON string.
  const StringTokens& in_strings() const { return in_strings_; }

  uint32_t n_vocab() const { return static_cast<uint32_t>(tokens_.size()); }
  // Returns the bytes of a token; empty if the token is never allowed.
  const std::string& bytes(TokenId id) const { return tokens_[id]; }
  uint32_t max_token_bytes() const { return max_token_bytes_; }

 private:
  std::vector<std::string> tokens_;
  Tree plain_, other_, all_;
  TokenBitmask plain_mask_;
  StringTokens in_strings_;
  uint32_t max_token_bytes_ = 0;
};

}  // namespace kvik::constrain
