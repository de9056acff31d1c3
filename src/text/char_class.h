#pragma once

#include "text/pre_tokenizer.h"

namespace kvik {

inline constexpr char32_t kNotACharacter = 0x110000;  // one past the last: a byte out of place

// By Unicode's general category and White_Space property (ICU).
CharClass class_of(char32_t code_point);

// \p{P}.
bool is_punctuation(char32_t code_point);

// \p{Lu}, \p{Ll} or \p{Lt}.
bool is_cased_letter(char32_t code_point);

}  // namespace kvik
