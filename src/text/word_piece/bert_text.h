#pragma once

#include <functional>

namespace kvik {

// What BERT's normalisation tells apart.

// Characters that it drops.
bool is_bert_control(char32_t c);

// Its list of blocks; each of their characters is a word.
bool is_bert_cjk(char32_t c);

// The characters that `c` is without its accents: of its canonical decomposition those that are no
// marks.
void each_bert_base(char32_t c, const std::function<void(char32_t)>& take);

}  // namespace kvik
