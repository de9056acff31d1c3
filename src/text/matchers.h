#pragma once

#include "text/pre_tokenizer.h"

namespace kvik {

// The expressions of pre-tokenizers, one function each, as Matcher says. The patterns are those of
// the models' own tokenizer.json; (?i:…) is over ASCII.

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t match_gpt2(std::span<const Char> piece, size_t at);

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
size_t match_llama3(std::span<const Char> piece, size_t at);

// As match_llama3 with \p{N} in place of \p{N}{1,3}.
size_t match_qwen2(std::span<const Char> piece, size_t at);

// [\p{P}$+<=>^~|`]+
size_t match_falcon_punctuation(std::span<const Char> piece, size_t at);

// [0-9][0-9][0-9]
size_t match_three_digits(std::span<const Char> piece, size_t at);

// [\r\n]
size_t match_newline(std::span<const Char> piece, size_t at);

// \s?[cased letters, but for some blocks that DeepSeek's list leaves out]+
size_t match_deepseek_letters(std::span<const Char> piece, size_t at);

// \s?[!-/:-~！-／：-～‘-‟　-。]+, where :-~ holds the ASCII letters too
size_t match_deepseek_punctuation(std::span<const Char> piece, size_t at);

// \s+$
size_t match_trailing_blanks(std::span<const Char> piece, size_t at);

// [一-龥ࠀ-一가-퟿]+
size_t match_deepseek_cjk(std::span<const Char> piece, size_t at);

// \p{N}+
size_t match_numbers(std::span<const Char> piece, size_t at);

}  // namespace kvik
