#pragma once

#include "text/pre_tokenizer/pre_tokenizer.h"

namespace kvik {

// The expressions of pre-tokenizers, one function each, as Matcher says. The patterns are those of
// the models' own tokenizer.json; (?i:…) is over ASCII. tests/text/pre_tokenizer_regex_test.cpp
// runs the same patterns through PCRE2. U stands for \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}, l for
// \p{Ll}\p{Lm}\p{Lo}\p{M}, CONTRACTION for 's|'t|'re|'ve|'m|'ll|'d, BLANKS for \s+(?!\S)|\s+

// matchers_words.cpp

// CONTRACTION| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|BLANKS
Match match_gpt2(std::span<const Char> piece, size_t from);

// (?i:CONTRACTION)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|BLANKS
Match match_llama3(std::span<const Char> piece, size_t from);

// As match_llama3 with \p{N} in place of \p{N}{1,3}.
Match match_qwen2(std::span<const Char> piece, size_t from);

// As match_qwen2 with [\p{L}\p{M}] in place of \p{L} but for the first.
Match match_qwen35(std::span<const Char> piece, size_t from);

// As match_llama3 with \s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} for BLANKS.
Match match_jais2(std::span<const Char> piece, size_t from);

// As match_qwen2 with  ?[^\s\p{L}\p{N}\r\n]+ for symbols.
Match match_seed_coder(std::span<const Char> piece, size_t from);

// (?i:CONTRACTION)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|
//  ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|BLANKS
Match match_exaone_moe(std::span<const Char> piece, size_t from);

//  ?[^(\s|.,!?…。，、।۔،)]+
Match match_bloom(std::span<const Char> piece, size_t from);

// matchers_cased.cpp

// [^\r\n\p{L}\p{N}]?[U]*[l]+(?i:CONTRACTION)?|[^\r\n\p{L}\p{N}]?[U]+[l]*(?i:CONTRACTION)?|
// \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|BLANKS
Match match_gpt4o(std::span<const Char> piece, size_t from);

// As match_gpt4o with \p{N} in place of \p{N}{1,3}.
Match match_youtu(std::span<const Char> piece, size_t from);

// As match_youtu without contractions.
Match match_tekken(std::span<const Char> piece, size_t from);

// \p{Han}+, then as match_gpt4o with \p{Han} out of U and l, and [\r\n]* in place of [\r\n/]*.
Match match_kimi_k2(std::span<const Char> piece, size_t from);

// matchers_scripts.cpp

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|BLANKS
Match match_deepseek3(std::span<const Char> piece, size_t from);

// [一-龥぀-ゟ゠-ヿ]+
Match match_deepseek3_cjk(std::span<const Char> piece, size_t from);

// \s?[cased letters, but for some blocks that DeepSeek's list leaves out]+
Match match_deepseek_letters(std::span<const Char> piece, size_t from);

// \s?[!-/:-~！-／：-～‘-‟　-。]+, where :-~ holds the ASCII letters too
Match match_deepseek_punctuation(std::span<const Char> piece, size_t from);

// [一-龥ࠀ-一가-퟿]+
Match match_deepseek_cjk(std::span<const Char> piece, size_t from);

// As match_deepseek_cjk and behind it match_numbers.
Match match_deepseek_cjk_then_numbers(std::span<const Char> piece, size_t from);

// \s?\p{L}+ and \s?\p{P}+
Match match_deepseek_coder_letters(std::span<const Char> piece, size_t from);
Match match_deepseek_coder_punctuation(std::span<const Char> piece, size_t from);

// [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
Match match_youtu_scripts(std::span<const Char> piece, size_t from);

// [一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+
Match match_afmoe_scripts(std::span<const Char> piece, size_t from);

// matchers_signs.cpp

// [\p{P}$+<=>^~|`]+, and the same without the backtick
Match match_falcon_punctuation(std::span<const Char> piece, size_t from);
Match match_default_punctuation(std::span<const Char> piece, size_t from);

// \p{N}, \p{N}{1,3}, \p{N}+, [0-9][0-9][0-9], \d+
Match match_number(std::span<const Char> piece, size_t from);
Match match_up_to_three_numbers(std::span<const Char> piece, size_t from);
Match match_numbers(std::span<const Char> piece, size_t from);
Match match_three_digits(std::span<const Char> piece, size_t from);
Match match_digits(std::span<const Char> piece, size_t from);

// \d+\b
Match match_digits_before_no_word(std::span<const Char> piece, size_t from);

// [\r\n], \s+$
Match match_newline(std::span<const Char> piece, size_t from);
Match match_trailing_blanks(std::span<const Char> piece, size_t from);

// \n+|[^\n]+
Match match_line(std::span<const Char> piece, size_t from);

// Chameleon's: <sentinel:[0-9]+>, IMGIMG[A-I]{1,4}Z, [\t\n]|    |  , and [\p{P}!-/:-@\[-`{-~]
Match match_chameleon_sentinel(std::span<const Char> piece, size_t from);
Match match_chameleon_image(std::span<const Char> piece, size_t from);
Match match_chameleon_indent(std::span<const Char> piece, size_t from);
Match match_chameleon_punctuation(std::span<const Char> piece, size_t from);

}  // namespace kvik
