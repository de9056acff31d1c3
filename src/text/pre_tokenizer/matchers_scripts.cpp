#include <string_view>

#include "text/pre_tokenizer/matcher_parts.h"
#include "text/pre_tokenizer/matchers.h"

namespace kvik {
namespace {

using namespace matcher;

bool is_sign(const Char& c) { return c.has(kPunctuationTrait | kSymbolTrait); }
bool is_unicode_punctuation(const Char& c) { return c.has(kPunctuationTrait); }

bool is_ascii_letter(const Char& c) {
  return is_between(c.code_point, 'A', 'Z') || is_between(c.code_point, 'a', 'z');
}

bool is_deepseek3_cjk(const Char& c) {
  return is_between(c.code_point, 0x4E00, 0x9FA5) || is_between(c.code_point, 0x3040, 0x30FF);
}

// Returns whether the character is in the list of 100 ranges in DeepSeek's tokenizer.json.
bool is_deepseek_letter(const Char& c) {
  const char32_t p = c.code_point;
  if (!c.has(kUpperTrait | kLowerTrait)) return false;
  if (p < 0x10000) {
    const bool is_left_out = is_between(p, 0x560, 0x588) || is_between(p, 0x10C7, 0x10FF) ||
                             is_between(p, 0x1C80, 0x1C88) || is_between(p, 0x2D00, 0x2D2D) ||
                             is_between(p, 0xA790, 0xA7FA) || is_between(p, 0xAB30, 0xAB68);
    return !is_left_out;
  }
  return is_between(p, 0x10400, 0x1044F) || is_between(p, 0x104B0, 0x104FB) ||
         is_between(p, 0x10C80, 0x10CF2) || is_between(p, 0x118A0, 0x118DF) ||
         is_between(p, 0x1E900, 0x1E943);
}

bool is_deepseek_punctuation(const Char& c) {
  const char32_t p = c.code_point;
  return is_between(p, '!', '/') || is_between(p, ':', '~') || is_between(p, 0xFF01, 0xFF0F) ||
         is_between(p, 0xFF1A, 0xFF5E) || is_between(p, 0x2018, 0x201F) ||
         is_between(p, 0x3000, 0x3002);
}

bool is_deepseek_cjk(const Char& c) {
  return is_between(c.code_point, 0x800, 0x9FA5) || is_between(c.code_point, 0xAC00, 0xD7FF);
}

bool is_hangul(const Char& c) {
  return is_between(c.code_point, 0xAC00, 0xD7A3) || is_between(c.code_point, 0x3131, 0x318E);
}

bool is_youtu_punctuation(const Char& c) {
  constexpr std::u32string_view kSingle = U"！…“”‘’—：；，";
  return is_between(c.code_point, 0x3001, 0x303F) || is_between(c.code_point, 0xFE30, 0xFE4F) ||
         kSingle.find(c.code_point) != kSingle.npos;
}

bool is_bopomofo(const Char& c) { return is_between(c.code_point, 0x3105, 0x312F); }

bool is_afmoe_script(const Char& c) {
  constexpr char32_t kRanges[][2] = {
      {0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0xF900, 0xFAFF}, {0x3040, 0x30FF}, {0xFF65, 0xFF9F},
      {0x2F00, 0x2FDF}, {0x0E40, 0x0EFF}, {0x1780, 0x17FF}, {0x1000, 0x109F}, {0xAA60, 0xAA7F},
      {0xA9E0, 0xA9FF}, {0xAC00, 0xD7AF}, {0x1100, 0x11FF}};
  for (const auto& range : kRanges) {
    if (is_between(c.code_point, range[0], range[1])) return true;
  }
  return false;
}

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
size_t sign_then_letters(Piece piece, size_t at) {
  if (piece[at].code_point >= 0x80 || !is_sign(piece[at])) return at;
  const size_t end = run_end(piece, at + 1, is_ascii_letter);
  return end > at + 1 ? end : at;
}

// [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
size_t deepseek3_word(Piece piece, size_t at) {
  const Char& c = piece[at];
  if (!is_newline(c) && !is_letter(c) && !is_sign(c)) {
    if (const size_t end = run_end(piece, at + 1, is_letter_or_mark); end > at + 1) return end;
  }
  return run_end(piece, at, is_letter_or_mark);
}

//  ?[\p{P}\p{S}]+[\r\n]*
size_t deepseek3_signs(Piece piece, size_t at) {
  const size_t end = run_after_space<is_sign>(piece, at);
  return end > at ? run_end(piece, end, is_newline) : at;
}

// Matches CJK characters and numbers in one pass. A character may be in both classes: a word is a
// run of characters that are in the first class only, in the second only, in both, or in neither.
size_t deepseek_cjk_then_numbers(Piece piece, size_t at) {
  const bool cjk = is_deepseek_cjk(piece[at]), number = is_number(piece[at]);
  if (!cjk && !number) return at;
  return run_end(piece, at, [=](const Char& c) {
    return is_deepseek_cjk(c) == cjk && is_number(c) == number;
  });
}

}  // namespace

constinit const Matcher match_deepseek3 =
    first<any_of<sign_then_letters, deepseek3_word, deepseek3_signs, blanks_to_newline, blanks>>;
constinit const Matcher match_deepseek3_cjk = first<run<is_deepseek3_cjk>>;
constinit const Matcher match_deepseek_letters = first<run_after_blank<is_deepseek_letter>>;
constinit const Matcher match_deepseek_punctuation =
    first<run_after_blank<is_deepseek_punctuation>>;
constinit const Matcher match_deepseek_cjk = first<run<is_deepseek_cjk>>;
constinit const Matcher match_deepseek_cjk_then_numbers = first<deepseek_cjk_then_numbers>;
constinit const Matcher match_deepseek_coder_letters = first<run_after_blank<is_letter>>;
constinit const Matcher match_deepseek_coder_punctuation =
    first<run_after_blank<is_unicode_punctuation>>;
constinit const Matcher match_youtu_scripts = first<
    any_of<run<is_hangul>, run<is_youtu_punctuation>, run<is_bopomofo>, run<is_deepseek3_cjk>>>;
constinit const Matcher match_afmoe_scripts = first<run<is_afmoe_script>>;

}  // namespace kvik
