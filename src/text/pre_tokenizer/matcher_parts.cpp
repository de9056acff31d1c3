#include "text/pre_tokenizer/matcher_parts.h"

namespace kvik::matcher {

size_t contraction(Piece piece, size_t at, Case letters) {
  if (at + 1 >= piece.size() || piece[at].code_point != '\'') return at;
  const auto letter_at = [&](size_t i) {
    const char32_t c = piece[i].code_point;
    return letters == Case::kIgnore && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  };
  const char32_t first = letter_at(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (at + 2 == piece.size()) return at;
  const char32_t second = letter_at(at + 2);
  const bool is_long = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                       (first == 'l' && second == 'l');
  return is_long ? at + 3 : at;
}

size_t blanks(Piece piece, size_t at) {
  const size_t end = run_end(piece, at, CharClass::kBlank);
  return end - at > 1 && end < piece.size() ? end - 1 : end;
}

size_t blanks_to_newline(Piece piece, size_t at) {
  size_t end = run_end(piece, at, CharClass::kBlank);
  while (end > at && !is_newline(piece[end - 1])) --end;
  return end;
}

}  // namespace kvik::matcher
