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

// A vocabulary's tokens by their bytes, to be walked beside a grammar. Those that are plain text
// within a JSON string (whole characters, no quote, backslash or control character) are a tree of
// their own: mostly all of them are allowed or none. Immutable: any thread.
class VocabularyTrie {
 public:
  // Control, unknown and unused tokens are never allowed, nor are empty ones.
  explicit VocabularyTrie(const Tokenizer& tokenizer);
  explicit VocabularyTrie(std::vector<std::string> tokens);

  using Tree = TokenTree;

  const Tree& plain() const { return plain_; }
  const Tree& other() const { return other_; }
  // Both together.
  const Tree& all() const { return all_; }
  // The bits of all tokens in plain().
  const TokenBitmask& plain_mask() const { return plain_mask_; }
  // What plain tokens are made of, at most so many each.
  static const CodePointSet& plain_characters();
  static constexpr uint32_t kMaxPlainCharacters = 48;

  // Tokens as they are read within a JSON string.
  const StringTokens& in_strings() const { return in_strings_; }

  uint32_t n_vocab() const { return static_cast<uint32_t>(tokens_.size()); }
  // Empty where the token is never allowed.
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
