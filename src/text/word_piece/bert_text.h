#pragma once

#include <functional>

namespace kvik {

// Character classes of BERT's normalization.

// Returns whether the normalization removes the character.
bool is_bert_control(char32_t c);

// Returns whether the character is in BERT's blocks of Chinese characters, each of which is a word.
bool is_bert_cjk(char32_t c);

// Removes accents: calls `take` for the characters of the canonical decomposition of `c` that are
// not marks.
void each_bert_base(char32_t c, const std::function<void(char32_t)>& take);

}  // namespace kvik
