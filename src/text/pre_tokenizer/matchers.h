#pragma once

#include "text/pre_tokenizer/pre_tokenizer.h"

namespace kvik {

// The expressions of pre-tokenizers, one Matcher each. The patterns are those of the models'
// tokenizer.json; (?i:…) applies to ASCII. tests/text/pre_tokenizer/pre_tokenizer_regex_test.cpp
// compares them with PCRE2. U denotes \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}, l denotes
// \p{Ll}\p{Lm}\p{Lo}\p{M}, CONTRACTION denotes 's|'t|'re|'ve|'m|'ll|'d, BLANKS denotes
// \s+(?!\S)|\s+

// Defined in matchers_words.cpp.

// CONTRACTION| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|BLANKS
extern const Matcher match_gpt2;

// (?i:CONTRACTION)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|BLANKS
extern const Matcher match_llama3;

// match_llama3 with \p{N} instead of \p{N}{1,3}.
extern const Matcher match_qwen2;

// match_qwen2 with [\p{L}\p{M}] instead of \p{L}, except in the first class.
extern const Matcher match_qwen35;

// match_llama3 with \s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} instead of
// BLANKS.
extern const Matcher match_jais2;

// match_qwen2 with  ?[^\s\p{L}\p{N}\r\n]+ for symbols.
extern const Matcher match_seed_coder;

// (?i:CONTRACTION)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|
//  ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|BLANKS
extern const Matcher match_exaone_moe;

//  ?[^(\s|.,!?…。，、।۔،)]+
extern const Matcher match_bloom;

// Defined in matchers_cased.cpp.

// [^\r\n\p{L}\p{N}]?[U]*[l]+(?i:CONTRACTION)?|[^\r\n\p{L}\p{N}]?[U]+[l]*(?i:CONTRACTION)?|
// \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|BLANKS
extern const Matcher match_gpt4o;

// match_gpt4o with \p{N} instead of \p{N}{1,3}.
extern const Matcher match_youtu;

// match_youtu without contractions.
extern const Matcher match_tekken;

// \p{Han}+, then match_gpt4o with \p{Han} removed from U and l, and [\r\n]* instead of [\r\n/]*.
extern const Matcher match_kimi_k2;

// Defined in matchers_scripts.cpp.

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|BLANKS
extern const Matcher match_deepseek3;

// [一-龥぀-ゟ゠-ヿ]+
extern const Matcher match_deepseek3_cjk;

// \s?[cased letters, except some blocks missing from DeepSeek's list]+
extern const Matcher match_deepseek_letters;

// \s?[!-/:-~！-／：-～‘-‟　-。]+, in which :-~ includes the ASCII letters
extern const Matcher match_deepseek_punctuation;

// [一-龥ࠀ-一가-퟿]+
extern const Matcher match_deepseek_cjk;

// match_deepseek_cjk followed by match_numbers.
extern const Matcher match_deepseek_cjk_then_numbers;

// \s?\p{L}+ and \s?\p{P}+
extern const Matcher match_deepseek_coder_letters;
extern const Matcher match_deepseek_coder_punctuation;

// [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
extern const Matcher match_youtu_scripts;

// [一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+
extern const Matcher match_afmoe_scripts;

// Defined in matchers_signs.cpp.

// [\p{P}$+<=>^~|`]+, and the same without the backtick
extern const Matcher match_falcon_punctuation;
extern const Matcher match_default_punctuation;

// \p{N}, \p{N}{1,3}, \p{N}+, [0-9][0-9][0-9], \d+
extern const Matcher match_number;
extern const Matcher match_up_to_three_numbers;
extern const Matcher match_numbers;
extern const Matcher match_three_digits;
extern const Matcher match_digits;

// \d+\b
extern const Matcher match_digits_at_word_boundary;

// [\r\n], \s+$
extern const Matcher match_newline;
extern const Matcher match_trailing_blanks;

// \n+|[^\n]+
extern const Matcher match_line;

// Chameleon's: <sentinel:[0-9]+>, IMGIMG[A-I]{1,4}Z, [\t\n]|    |  , and [\p{P}!-/:-@\[-`{-~]
extern const Matcher match_chameleon_sentinel;
extern const Matcher match_chameleon_image;
extern const Matcher match_chameleon_indent;
extern const Matcher match_chameleon_punctuation;

}  // namespace kvik
