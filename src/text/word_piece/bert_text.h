#pragma once

#include <functional>

namespace kvik {

// Character classes of BERT's normalization.

// True for characters that it removes.
bool is_bert_control(char32_t c);

// True for BERT's blocks of Chinese characters, each of which is a word.
bool is_bert_cjk(char32_t c);

// Calls `take` for the characters of the canonical decomposition of `c` that are not marks: `c`
// without accents.
void each_bert_base(char32_t c, const std::function<void(char32_t)>& take);

}  // namespace kvik
