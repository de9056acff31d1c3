#pragma once

#include <span>

#include "text/pre_tokenizer/char_class.h"
#include "text/pre_tokenizer/pre_tokenizer.h"

// What the matchers of pre-tokenizers are made of. Each takes a piece of text and a place in it,
// and gives the end of what it found there; the place itself where it found nothing.
namespace kvik::matcher {

using Piece = std::span<const Char>;

// Of a function that gives the end of the match that begins at a place, or the place itself.
template <size_t (*kMatchAt)(Piece, size_t)>
Match first(Piece piece, size_t from) {
  for (size_t at = from; at < piece.size(); ++at) {
    if (const size_t end = kMatchAt(piece, at); end > at) return {at, end};
  }
  return {piece.size(), piece.size()};
}

// X* for the characters of which `belongs` is true.
template <class Predicate>
size_t run_end(Piece piece, size_t at, const Predicate& belongs) {
  while (at < piece.size() && belongs(piece[at])) ++at;
  return at;
}

inline size_t run_end(Piece piece, size_t at, CharClass char_class) {
  return run_end(piece, at, [=](const Char& c) { return c.char_class == char_class; });
}

// \s?X+
template <class Predicate>
size_t run_after_blank(Piece piece, size_t at, const Predicate& belongs) {
  const size_t begin = at + (piece[at].char_class == CharClass::kBlank ? 1 : 0);
  if (const size_t end = run_end(piece, begin, belongs); end > begin) return end;
  return run_end(piece, at, belongs);  // X may hold the blank itself
}

inline bool is_newline(const Char& c) { return c.code_point == '\r' || c.code_point == '\n'; }
inline bool is_between(char32_t c, char32_t first, char32_t last) {
  return first <= c && c <= last;
}

enum class Case { kKeep, kIgnore };  // ASCII

// 's|'t|'re|'ve|'m|'ll|'d
size_t contraction(Piece piece, size_t at, Case letters);

// \s+(?!\S)|\s+ : the last blank before a word belongs to the word.
size_t blanks(Piece piece, size_t at);

// \s*[\r\n]+ : blanks up to and with the last newline among them.
size_t blanks_to_newline(Piece piece, size_t at);

}  // namespace kvik::matcher
