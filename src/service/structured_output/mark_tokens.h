#pragma once

#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer.h"

namespace kvik {

// Returns the tokens of a text inside an answer, with special tokens recognized, except in the
// first n_plain bytes.
std::vector<TokenId> mark_tokens(const Tokenizer& tokenizer, std::string_view text,
                                 size_t n_plain = 0);

}  // namespace kvik
