#include <algorithm>

#include "text/pre_tokenizer/matcher_parts.h"
#include "text/pre_tokenizer/matchers.h"

namespace kvik {
namespace {

using namespace matcher;

enum class Suffix { kNone, kContraction };
enum class Han { kAmongLetters, kApart };
enum class Tail { kNewlines, kNewlinesAndSlashes };

// What the tokenizers that cut camelCase differ in.
struct CasedRules {
  size_t max_digits;
  Suffix suffix = Suffix::kContraction;
  Tail tail = Tail::kNewlinesAndSlashes;
  Han han = Han::kAmongLetters;
};

template <CasedRules kRules>
bool has(const Char& c, int traits) {
  return c.has(traits) && !(kRules.han == Han::kApart && is_han(c.code_point));
}

template <CasedRules kRules>
bool is_upper(const Char& c) {
  return has<kRules>(c, kUpperTrait | kUncasedTrait | kMarkTrait);
}

template <CasedRules kRules>
bool is_lower(const Char& c) {
  return has<kRules>(c, kLowerTrait | kUncasedTrait | kMarkTrait);
}

// [U]*[l]+ from `at`. Where nothing of l follows the run of U, the run gives back what is in both.
template <CasedRules kRules>
size_t ends_in_lower(Piece piece, size_t at) {
  size_t upper_end = run_end(piece, at, is_upper<kRules>);
  if (const size_t end = run_end(piece, upper_end, is_lower<kRules>); end > upper_end) return end;
  while (upper_end > at && !is_lower<kRules>(piece[upper_end - 1])) --upper_end;
  return upper_end;
}

// [U]+[l]*
template <CasedRules kRules>
size_t begins_with_upper(Piece piece, size_t at) {
  const size_t upper_end = run_end(piece, at, is_upper<kRules>);
  return upper_end > at ? run_end(piece, upper_end, is_lower<kRules>) : at;
}

template <CasedRules kRules>
size_t word(Piece piece, size_t at) {
  const Char& c = piece[at];
  const bool is_prefix = !is_newline(c) && c.char_class != CharClass::kLetter &&
                         c.char_class != CharClass::kNumber && at + 1 < piece.size();
  for (const auto letters : {ends_in_lower<kRules>, begins_with_upper<kRules>}) {
    size_t end = at;
    if (is_prefix) {
      end = letters(piece, at + 1);
      if (end == at + 1) end = at;
    }
    if (end == at) end = letters(piece, at);
    if (end == at) continue;
    return kRules.suffix == Suffix::kContraction ? contraction(piece, end, Case::kIgnore) : end;
  }
  return at;
}

template <CasedRules kRules>
size_t symbols(Piece piece, size_t at) {
  const size_t begin = at + (piece[at].code_point == ' ' ? 1 : 0);
  const size_t end = run_end(piece, begin, CharClass::kOther);
  if (end == begin) return at;
  return run_end(piece, end, [](const Char& c) {
    return is_newline(c) || (kRules.tail == Tail::kNewlinesAndSlashes && c.code_point == '/');
  });
}

template <CasedRules kRules>
size_t match(Piece piece, size_t at) {
  if (kRules.han == Han::kApart) {
    const size_t end = run_end(piece, at, [](const Char& c) { return is_han(c.code_point); });
    if (end > at) return end;
  }
  if (const size_t end = word<kRules>(piece, at); end > at) return end;
  if (piece[at].char_class == CharClass::kNumber) {
    const Piece near = piece.first(std::min(piece.size(), at + kRules.max_digits));
    return run_end(near, at, CharClass::kNumber);
  }
  if (const size_t end = symbols<kRules>(piece, at); end > at) return end;
  if (const size_t end = blanks_to_newline(piece, at); end > at) return end;
  return blanks(piece, at);
}

size_t gpt4o_at(Piece piece, size_t at) { return match<CasedRules{3}>(piece, at); }
size_t youtu_at(Piece piece, size_t at) { return match<CasedRules{1}>(piece, at); }

size_t tekken_at(Piece piece, size_t at) {
  return match<CasedRules{.max_digits = 1, .suffix = Suffix::kNone}>(piece, at);
}

size_t kimi_k2_at(Piece piece, size_t at) {
  return match<CasedRules{.max_digits = 3, .tail = Tail::kNewlines, .han = Han::kApart}>(piece, at);
}

}  // namespace

Match match_gpt4o(Piece piece, size_t from) { return first<gpt4o_at>(piece, from); }
Match match_youtu(Piece piece, size_t from) { return first<youtu_at>(piece, from); }
Match match_tekken(Piece piece, size_t from) { return first<tekken_at>(piece, from); }
Match match_kimi_k2(Piece piece, size_t from) { return first<kimi_k2_at>(piece, from); }

}  // namespace kvik
