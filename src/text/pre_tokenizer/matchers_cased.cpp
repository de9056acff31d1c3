#include "text/pre_tokenizer/matcher_parts.h"
#include "text/pre_tokenizer/matchers.h"

namespace kvik {
namespace {

using namespace matcher;

enum class Suffix { kNone, kContraction };
enum class Han { kAmongLetters, kApart };
enum class Tail { kNewlines, kNewlinesAndSlashes };

// The differences between the tokenizers that split camelCase.
struct CasedRules {
  size_t max_digits;
  Suffix suffix = Suffix::kContraction;
  Tail tail = Tail::kNewlinesAndSlashes;
  Han han = Han::kAmongLetters;
};

bool is_han_character(const Char& c) { return is_han(c.code_point); }

// U or l, depending on `kTraits`.
template <CasedRules kRules, int kTraits>
bool is_cased(const Char& c) {
  return c.has(kTraits | kUncasedTrait | kMarkTrait) &&
         !(kRules.han == Han::kApart && is_han_character(c));
}

// [U]*[l]+. If no l follows the run of U, the match backtracks to the last character that is in
// both classes.
template <auto kUpper, auto kLower>
size_t ends_in_lower(Piece piece, size_t at) {
  size_t upper_end = run_end(piece, at, kUpper);
  if (const size_t end = run_end(piece, upper_end, kLower); end > upper_end) return end;
  while (upper_end > at && !kLower(piece[upper_end - 1])) --upper_end;
  return upper_end;
}

// [U]+[l]*
template <auto kUpper, auto kLower>
size_t begins_with_upper(Piece piece, size_t at) {
  const size_t upper_end = run_end(piece, at, kUpper);
  return upper_end > at ? run_end(piece, upper_end, kLower) : at;
}

// [^\r\n\p{L}\p{N}]?letters
template <auto kLetters>
size_t word(Piece piece, size_t at) {
  const Char& c = piece[at];
  const bool is_prefix = !is_newline(c) && !is_letter(c) && !is_number(c) && at + 1 < piece.size();
  if (is_prefix) {
    if (const size_t end = kLetters(piece, at + 1); end > at + 1) return end;
  }
  return kLetters(piece, at);
}

template <CasedRules kRules>
size_t words(Piece piece, size_t at) {
  constexpr auto kUpper = is_cased<kRules, kUpperTrait>;
  constexpr auto kLower = is_cased<kRules, kLowerTrait>;
  const size_t end =
      any_of<word<ends_in_lower<kUpper, kLower>>, word<begins_with_upper<kUpper, kLower>>>(piece,
                                                                                           at);
  const bool has_suffix = end > at && kRules.suffix == Suffix::kContraction;
  return has_suffix ? contraction<Case::kIgnore>(piece, end) : end;
}

bool is_symbol(const Char& c) { return c.char_class == CharClass::kOther; }

template <CasedRules kRules>
size_t symbols(Piece piece, size_t at) {
  const size_t end = run_after_space<is_symbol>(piece, at);
  if (end == at) return at;
  return run_end(piece, end, [](const Char& c) {
    return is_newline(c) || (kRules.tail == Tail::kNewlinesAndSlashes && c.code_point == '/');
  });
}

template <CasedRules kRules>
size_t match(Piece piece, size_t at) {
  return any_of<words<kRules>, some<is_number, kRules.max_digits>, symbols<kRules>,
                blanks_to_newline, blanks>(piece, at);
}

constexpr CasedRules kKimiK2 = {.max_digits = 3, .tail = Tail::kNewlines, .han = Han::kApart};

}  // namespace

constinit const Matcher match_gpt4o = first<match<CasedRules{3}>>;
constinit const Matcher match_youtu = first<match<CasedRules{1}>>;
constinit const Matcher match_tekken =
    first<match<CasedRules{.max_digits = 1, .suffix = Suffix::kNone}>>;
constinit const Matcher match_kimi_k2 = first<any_of<run<is_han_character>, match<kKimiK2>>>;

}  // namespace kvik
