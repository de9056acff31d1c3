#include <algorithm>
#include <string_view>

#include "text/pre_tokenizer/matcher_parts.h"
#include "text/pre_tokenizer/matchers.h"

namespace kvik {
namespace {

using namespace matcher;

bool is_default_punctuation(const Char& c) {
  constexpr std::u32string_view kMore = U"$+<=>^~|";
  return c.has(kPunctuationTrait) || kMore.find(c.code_point) != kMore.npos;
}

bool is_falcon_punctuation(const Char& c) {
  return is_default_punctuation(c) || c.code_point == '`';
}

bool is_ascii_digit(const Char& c) { return is_between(c.code_point, '0', '9'); }
bool is_digit(const Char& c) { return c.has(kDigitTrait); }

// \w
bool is_word(const Char& c) {
  return c.char_class == CharClass::kLetter || c.has(kMarkTrait | kDigitTrait | kConnectorTrait);
}

bool starts_with(Piece piece, size_t at, std::string_view text) {
  if (piece.size() - at < text.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (piece[at + i].code_point != static_cast<char32_t>(text[i])) return false;
  }
  return true;
}

size_t falcon_punctuation_at(Piece piece, size_t at) {
  return run_end(piece, at, is_falcon_punctuation);
}

size_t default_punctuation_at(Piece piece, size_t at) {
  return run_end(piece, at, is_default_punctuation);
}

size_t number_at(Piece piece, size_t at) {
  return at + (piece[at].char_class == CharClass::kNumber ? 1 : 0);
}

size_t up_to_three_numbers_at(Piece piece, size_t at) {
  return run_end(piece.first(std::min(piece.size(), at + 3)), at, CharClass::kNumber);
}

size_t numbers_at(Piece piece, size_t at) { return run_end(piece, at, CharClass::kNumber); }

size_t three_digits_at(Piece piece, size_t at) {
  if (at + 3 > piece.size()) return at;
  return std::all_of(&piece[at], &piece[at] + 3, is_ascii_digit) ? at + 3 : at;
}

size_t digits_at(Piece piece, size_t at) { return run_end(piece, at, is_digit); }

size_t digits_before_no_word_at(Piece piece, size_t at) {
  // A run that is followed by a word was tried at its first digit: once is enough.
  if (at > 0 && is_digit(piece[at - 1])) return at;
  const size_t end = run_end(piece, at, is_digit);
  return end < piece.size() && is_word(piece[end]) ? at : end;
}

size_t newline_at(Piece piece, size_t at) { return at + (is_newline(piece[at]) ? 1 : 0); }

size_t trailing_blanks_at(Piece piece, size_t at) {
  // A run that does not reach the end was tried at its first blank: once is enough.
  if (at > 0 && piece[at - 1].char_class == CharClass::kBlank) return at;
  const size_t end = run_end(piece, at, CharClass::kBlank);
  return end == piece.size() ? end : at;
}

size_t line_at(Piece piece, size_t at) {
  const bool is_break = piece[at].code_point == '\n';
  return run_end(piece, at, [=](const Char& c) { return (c.code_point == '\n') == is_break; });
}

size_t chameleon_sentinel_at(Piece piece, size_t at) {
  constexpr std::string_view kBegin = "<sentinel:";
  if (!starts_with(piece, at, kBegin)) return at;
  const size_t digits = at + kBegin.size();
  const size_t end = run_end(piece, digits, is_ascii_digit);
  return end > digits && end < piece.size() && piece[end].code_point == '>' ? end + 1 : at;
}

size_t chameleon_image_at(Piece piece, size_t at) {
  constexpr std::string_view kBegin = "IMGIMG";
  constexpr size_t kMaxLetters = 4;
  if (!starts_with(piece, at, kBegin)) return at;
  const size_t letters = at + kBegin.size();
  const Piece near = piece.first(std::min(piece.size(), letters + kMaxLetters));
  const size_t end =
      run_end(near, letters, [](const Char& c) { return is_between(c.code_point, 'A', 'I'); });
  return end > letters && end < piece.size() && piece[end].code_point == 'Z' ? end + 1 : at;
}

size_t chameleon_indent_at(Piece piece, size_t at) {
  if (piece[at].code_point == '\t' || piece[at].code_point == '\n') return at + 1;
  if (starts_with(piece, at, "    ")) return at + 4;
  return starts_with(piece, at, "  ") ? at + 2 : at;
}

size_t chameleon_punctuation_at(Piece piece, size_t at) {
  const Char& c = piece[at];
  const bool is_ascii_sign = c.code_point < 0x80 && c.has(kPunctuationTrait | kSymbolTrait);
  return at + (c.has(kPunctuationTrait) || is_ascii_sign ? 1 : 0);
}

}  // namespace

Match match_falcon_punctuation(Piece piece, size_t from) {
  return first<falcon_punctuation_at>(piece, from);
}
Match match_default_punctuation(Piece piece, size_t from) {
  return first<default_punctuation_at>(piece, from);
}
Match match_number(Piece piece, size_t from) { return first<number_at>(piece, from); }
Match match_up_to_three_numbers(Piece piece, size_t from) {
  return first<up_to_three_numbers_at>(piece, from);
}
Match match_numbers(Piece piece, size_t from) { return first<numbers_at>(piece, from); }
Match match_three_digits(Piece piece, size_t from) { return first<three_digits_at>(piece, from); }
Match match_digits(Piece piece, size_t from) { return first<digits_at>(piece, from); }
Match match_digits_before_no_word(Piece piece, size_t from) {
  return first<digits_before_no_word_at>(piece, from);
}
Match match_newline(Piece piece, size_t from) { return first<newline_at>(piece, from); }
Match match_trailing_blanks(Piece piece, size_t from) {
  return first<trailing_blanks_at>(piece, from);
}
Match match_line(Piece piece, size_t from) { return first<line_at>(piece, from); }
Match match_chameleon_sentinel(Piece piece, size_t from) {
  return first<chameleon_sentinel_at>(piece, from);
}
Match match_chameleon_image(Piece piece, size_t from) {
  return first<chameleon_image_at>(piece, from);
}
Match match_chameleon_indent(Piece piece, size_t from) {
  return first<chameleon_indent_at>(piece, from);
}
Match match_chameleon_punctuation(Piece piece, size_t from) {
  return first<chameleon_punctuation_at>(piece, from);
}

}  // namespace kvik
