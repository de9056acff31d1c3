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
bool is_image_letter(const Char& c) { return is_between(c.code_point, 'A', 'I'); }
bool is_line_feed(const Char& c) { return c.code_point == '\n'; }

bool starts_with(Piece piece, size_t at, std::string_view text) {
  if (piece.size() - at < text.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (piece[at + i].code_point != static_cast<char32_t>(text[i])) return false;
  }
  return true;
}

size_t three_digits(Piece piece, size_t at) {
  if (at + 3 > piece.size()) return at;
  return std::all_of(&piece[at], &piece[at] + 3, is_ascii_digit) ? at + 3 : at;
}

size_t digits_before_no_word(Piece piece, size_t at) {
  // A run followed by a word was already tried at its first digit.
  if (at > 0 && is_digit(piece[at - 1])) return at;
  const size_t end = run_end(piece, at, is_digit);
  return end < piece.size() && is_word(piece[end]) ? at : end;
}

size_t trailing_blanks(Piece piece, size_t at) {
  // A run that does not reach the end was already tried at its first space.
  if (at > 0 && is_blank(piece[at - 1])) return at;
  const size_t end = run_end(piece, at, is_blank);
  return end == piece.size() ? end : at;
}

size_t line(Piece piece, size_t at) {
  const bool is_break = is_line_feed(piece[at]);
  return run_end(piece, at, [=](const Char& c) { return is_line_feed(c) == is_break; });
}

size_t chameleon_sentinel(Piece piece, size_t at) {
  constexpr std::string_view kBegin = "<sentinel:";
  if (!starts_with(piece, at, kBegin)) return at;
  const size_t digits = at + kBegin.size();
  const size_t end = run_end(piece, digits, is_ascii_digit);
  return end > digits && end < piece.size() && piece[end].code_point == '>' ? end + 1 : at;
}

size_t chameleon_image(Piece piece, size_t at) {
  constexpr std::string_view kBegin = "IMGIMG";
  constexpr size_t kMaxLetters = 4;
  if (!starts_with(piece, at, kBegin)) return at;
  const size_t letters = at + kBegin.size();
  const size_t end = some<is_image_letter, kMaxLetters>(piece, letters);
  return end > letters && end < piece.size() && piece[end].code_point == 'Z' ? end + 1 : at;
}

size_t chameleon_indent(Piece piece, size_t at) {
  if (piece[at].code_point == '\t' || is_line_feed(piece[at])) return at + 1;
  if (starts_with(piece, at, "    ")) return at + 4;
  return starts_with(piece, at, "  ") ? at + 2 : at;
}

}  // namespace

constinit const Matcher match_falcon_punctuation = first<run<is_falcon_punctuation>>;
constinit const Matcher match_default_punctuation = first<run<is_default_punctuation>>;
constinit const Matcher match_number = first<one<is_number>>;
constinit const Matcher match_up_to_three_numbers = first<some<is_number, 3>>;
constinit const Matcher match_numbers = first<run<is_number>>;
constinit const Matcher match_three_digits = first<three_digits>;
constinit const Matcher match_digits = first<run<is_digit>>;
constinit const Matcher match_digits_at_word_boundary = first<digits_before_no_word>;
constinit const Matcher match_newline = first<one<is_newline>>;
constinit const Matcher match_trailing_blanks = first<trailing_blanks>;
constinit const Matcher match_line = first<line>;
constinit const Matcher match_chameleon_sentinel = first<chameleon_sentinel>;
constinit const Matcher match_chameleon_image = first<chameleon_image>;
constinit const Matcher match_chameleon_indent = first<chameleon_indent>;
constinit const Matcher match_chameleon_punctuation = first<one<is_punctuation>>;

}  // namespace kvik
