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

// Cuts a text at the special tokens spelled in it, before anything else is done with it: the
// longest at each place, from left to right. Time is linear in the text, times the length of the
// longest special token. Immutable: any thread.
class SpecialTokens {
 public:
  explicit SpecialTokens(const Vocabulary& vocabulary);

  // A token, or text without any; in the order of the text, nothing empty.
  struct Fragment {
    std::string_view text;
    std::optional<TokenId> id;
  };

  // User-defined tokens are words of the language (runs of blanks, say), found in any text; control
  // and unknown ones belong to who writes the prompt's frame, and are found inside the ranges of
  // `trusted` alone, which ascend.
  void each_fragment(std::string_view text, std::span<const TextRange> trusted,
                     const std::function<void(const Fragment& fragment)>& take) const;

 private:
  TokenTrie user_defined_;
  TokenTrie all_;
  std::unordered_set<TokenId> eat_blanks_behind_, eat_blanks_before_, whole_words_;
};

}  // namespace kvik
