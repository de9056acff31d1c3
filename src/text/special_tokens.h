#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>

#include "base/token_id.h"
#include "text/token_trie.h"
#include "text/tokenizer.h"

namespace kvik {

struct Vocabulary;

// Splits a text at its special tokens, before any other processing. Takes the longest token at each
// position, from left to right. Time is linear in the product of the lengths of the text and of the
// longest special token. Immutable; thread-safe.
class SpecialTokens {
 public:
  explicit SpecialTokens(const Vocabulary& vocabulary);

  // A special token, or text without special tokens (then `id` is absent). Never empty.
  struct Fragment {
    std::string_view text;
    std::optional<TokenId> id;
  };

  // Calls `take` for the fragments in the order of the text. User-defined tokens (runs of spaces,
  // for example) are recognized in any text. Control and unknown tokens are recognized only within
  // the `trusted` ranges, which are in ascending order.
  void each_fragment(std::string_view text, std::span<const TextRange> trusted,
                     const std::function<void(const Fragment& fragment)>& take) const;

 private:
  TokenTrie user_defined_;
  TokenTrie all_;
  std::unordered_set<TokenId> strips_after_, strips_before_, whole_words_;
};

}  // namespace kvik
