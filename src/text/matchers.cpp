#include "text/matchers.h"

#include <algorithm>
#include <string_view>

#include "text/char_class.h"

namespace kvik {
namespace {

using Piece = std::span<const Char>;

template <class Predicate>
size_t run_end(Piece piece, size_t at, const Predicate& belongs) {
  while (at < piece.size() && belongs(piece[at])) ++at;
  return at;
}

size_t run_end(Piece piece, size_t at, CharClass char_class) {
  return run_end(piece, at, [=](const Char& c) { return c.char_class == char_class; });
}

// \s?X+
template <class Predicate>
size_t run_after_blank(Piece piece, size_t at, const Predicate& belongs) {
  const size_t begin = at + (piece[at].char_class == CharClass::kBlank ? 1 : 0);
  if (const size_t end = run_end(piece, begin, belongs); end > begin) return end;
  return run_end(piece, at, belongs);  // X may hold the blank itself
}

bool is_newline(const Char& c) { return c.code_point == '\r' || c.code_point == '\n'; }

char32_t keep_case(char32_t c) { return c; }
char32_t ascii_lower(char32_t c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

// 's|'t|'re|'ve|'m|'ll|'d
template <class Fold>
size_t match_contraction(Piece piece, size_t at, const Fold& fold) {
  if (piece[at].code_point != '\'' || at + 1 == piece.size()) return at;
  const char32_t first = fold(piece[at + 1].code_point);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (at + 2 == piece.size()) return at;
  const char32_t second = fold(piece[at + 2].code_point);
  const bool is_long = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                       (first == 'l' && second == 'l');
  return is_long ? at + 3 : at;
}

// \s+(?!\S)|\s+ : the last blank before a word belongs to the word.
size_t match_blanks(Piece piece, size_t at) {
  const size_t end = run_end(piece, at, CharClass::kBlank);
  return end - at > 1 && end < piece.size() ? end - 1 : end;
}

// \s*[\r\n]+ : blanks up to and with the last newline among them.
size_t match_blanks_to_newline(Piece piece, size_t at) {
  size_t end = run_end(piece, at, CharClass::kBlank);
  while (end > at && !is_newline(piece[end - 1])) --end;
  return end;
}

size_t match_llama3_like(Piece piece, size_t at, size_t max_digits) {
  if (const size_t end = match_contraction(piece, at, ascii_lower); end > at) return end;
  const Char& c = piece[at];
  const bool letter_next = at + 1 < piece.size() && piece[at + 1].char_class == CharClass::kLetter;
  if (c.char_class == CharClass::kLetter) return run_end(piece, at, CharClass::kLetter);
  if (c.char_class == CharClass::kNumber) {
    return run_end(piece.first(std::min(piece.size(), at + max_digits)), at, CharClass::kNumber);
  }
  if (letter_next && !is_newline(c)) return run_end(piece, at + 1, CharClass::kLetter);
  const size_t begin = at + (c.code_point == ' ' ? 1 : 0);
  if (const size_t end = run_end(piece, begin, CharClass::kOther); end > begin) {
    return run_end(piece, end, is_newline);
  }
  if (const size_t end = match_blanks_to_newline(piece, at); end > at) return end;
  return match_blanks(piece, at);
}

bool is_between(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

bool is_falcon_punctuation(const Char& c) {
  constexpr std::u32string_view kMore = U"$+<=>^~|`";
  return is_punctuation(c.code_point) || kMore.find(c.code_point) != kMore.npos;
}

bool is_digit(const Char& c) { return is_between(c.code_point, '0', '9'); }

// The list in DeepSeek's tokenizer.json, 100 ranges long, said in fewer words.
bool is_deepseek_letter(const Char& c) {
  const char32_t p = c.code_point;
  if (!is_cased_letter(p)) return false;
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

}  // namespace

size_t match_gpt2(Piece piece, size_t at) {
  if (const size_t end = match_contraction(piece, at, keep_case); end > at) return end;
  const bool has_blank = piece[at].code_point == ' ' && at + 1 < piece.size();
  const size_t begin = at + (has_blank ? 1 : 0);
  const CharClass char_class = piece[begin].char_class;
  if (char_class == CharClass::kBlank) return match_blanks(piece, at);
  return run_end(piece, begin, char_class);
}

size_t match_llama3(Piece piece, size_t at) { return match_llama3_like(piece, at, 3); }
size_t match_qwen2(Piece piece, size_t at) { return match_llama3_like(piece, at, 1); }

size_t match_falcon_punctuation(Piece piece, size_t at) {
  return run_end(piece, at, is_falcon_punctuation);
}

size_t match_three_digits(Piece piece, size_t at) {
  if (at + 3 > piece.size()) return at;
  return std::all_of(&piece[at], &piece[at] + 3, is_digit) ? at + 3 : at;
}

size_t match_newline(Piece piece, size_t at) { return at + (is_newline(piece[at]) ? 1 : 0); }

size_t match_deepseek_letters(Piece piece, size_t at) {
  return run_after_blank(piece, at, is_deepseek_letter);
}

size_t match_deepseek_punctuation(Piece piece, size_t at) {
  return run_after_blank(piece, at, is_deepseek_punctuation);
}

size_t match_trailing_blanks(Piece piece, size_t at) {
  // A run that does not reach the end was tried at its first blank: once is enough.
  if (at > 0 && piece[at - 1].char_class == CharClass::kBlank) return at;
  const size_t end = run_end(piece, at, CharClass::kBlank);
  return end == piece.size() ? end : at;
}

size_t match_deepseek_cjk(Piece piece, size_t at) { return run_end(piece, at, is_deepseek_cjk); }

size_t match_numbers(Piece piece, size_t at) { return run_end(piece, at, CharClass::kNumber); }

}  // namespace kvik
