#pragma once

#include <algorithm>
#include <span>

#include "text/pre_tokenizer/char_class.h"
#include "text/pre_tokenizer/pre_tokenizer.h"

// Building blocks of the matchers. Each takes a piece of text and a position, and returns the end
// of its match or, if there is no match, the position itself.
namespace kvik::matcher {

using Piece = std::span<const Char>;

// The Matcher of a building block. Searches from left to right.
template <auto kMatchAt>
Match first(Piece piece, size_t from) {
  for (size_t at = from; at < piece.size(); ++at) {
    if (const size_t end = kMatchAt(piece, at); end > at) return {at, end};
  }
  return {piece.size(), piece.size()};
}

// A|B|…: the match of the first alternative that matches.
template <auto... kAlternatives>
size_t any_of(Piece piece, size_t at) {
  size_t end = at;
  (void)(... || ((end = kAlternatives(piece, at)) > at));
  return end;
}

// X*, for the characters that `belongs` selects.
template <class Predicate>
size_t run_end(Piece piece, size_t at, const Predicate& belongs) {
  while (at < piece.size() && belongs(piece[at])) ++at;
  return at;
}

// X+
template <auto kBelongs>
size_t run(Piece piece, size_t at) {
  return run_end(piece, at, kBelongs);
}

// X
template <auto kBelongs>
size_t one(Piece piece, size_t at) {
  return at + (kBelongs(piece[at]) ? 1 : 0);
}

// X{1,kMost}
template <auto kBelongs, size_t kMost>
size_t some(Piece piece, size_t at) {
  return run_end(piece.first(std::min(piece.size(), at + kMost)), at, kBelongs);
}

//  ?X+
template <auto kBelongs>
size_t run_after_space(Piece piece, size_t at) {
  const size_t begin = at + (piece[at].code_point == ' ' ? 1 : 0);
  const size_t end = run_end(piece, begin, kBelongs);
  return end > begin ? end : at;
}

// \s?X+
template <auto kBelongs>
size_t run_after_blank(Piece piece, size_t at) {
  const size_t begin = at + (is_blank(piece[at]) ? 1 : 0);
  if (const size_t end = run_end(piece, begin, kBelongs); end > begin) return end;
  return run_end(piece, at, kBelongs);  // X may include the space itself
}

inline bool is_newline(const Char& c) { return c.code_point == '\r' || c.code_point == '\n'; }
inline bool is_between(char32_t c, char32_t first, char32_t last) {
  return first <= c && c <= last;
}

enum class Case { kKeep, kIgnore };  // ASCII

// 's|'t|'re|'ve|'m|'ll|'d
template <Case kLetters>
size_t contraction(Piece piece, size_t at) {
  if (at + 1 >= piece.size() || piece[at].code_point != '\'') return at;
  const auto letter_at = [&](size_t i) {
    const char32_t c = piece[i].code_point;
    return kLetters == Case::kIgnore && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  };
  const char32_t first = letter_at(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (at + 2 == piece.size()) return at;
  const char32_t second = letter_at(at + 2);
  const bool is_long = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                       (first == 'l' && second == 'l');
  return is_long ? at + 3 : at;
}

// \s+(?!\S)|\s+. The last space before a word belongs to the word.
inline size_t blanks(Piece piece, size_t at) {
  const size_t end = run_end(piece, at, is_blank);
  return end - at > 1 && end < piece.size() ? end - 1 : end;
}

// \s*[\r\n]+. Whitespace up to and including its last newline.
inline size_t blanks_to_newline(Piece piece, size_t at) {
  size_t end = run_end(piece, at, is_blank);
  while (end > at && !is_newline(piece[end - 1])) --end;
  return end;
}

}  // namespace kvik::matcher
