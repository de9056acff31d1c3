#pragma once

namespace kvik {

// What BERT's normalisation tells apart.

// Characters that it drops.
bool is_bert_control(char32_t c);

// Its list of blocks; each of their characters is a word.
bool is_bert_cjk(char32_t c);

}  // namespace kvik
