#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer.h"

namespace kvik {

// Returns the tokens of a text inside an answer, with special tokens recognized, except in the
// first n_plain bytes.
std::vector<TokenId> mark_tokens(const Tokenizer& tokenizer, std::string_view text,
                                 size_t n_plain = 0);

// Returns the visible text of a token. The special tokens in `shown`, ascending, are visible.
std::string visible_piece(const Tokenizer& tokenizer, TokenId token,
                          const std::vector<TokenId>& shown);

// Searches for a mark in a text that is read piece by piece.
class MarkSearch {
 public:
  // Returns the part of the next piece after the mark; nullopt if the mark does not end in it.
  std::optional<std::string_view> after_mark(std::string_view mark, std::string_view piece) const;
  // Appends a piece that the mark does not end in.
  void append(std::string_view mark, std::string_view piece);

 private:
  std::string tail_ = {};  // end of the text that may be the beginning of the mark
};

}  // namespace kvik
