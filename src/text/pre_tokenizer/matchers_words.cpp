#include <algorithm>
#include <string_view>

#include "text/pre_tokenizer/matcher_parts.h"
#include "text/pre_tokenizer/matchers.h"

namespace kvik {
namespace {

using namespace matcher;

enum class Letters { kPlain, kWithMarks, kSpaced };
enum class Newlines { kApart, kAfterSymbols, kOneAfterSymbols };
enum class Blanks { kRuns, kPowersOfTwo };

// The differences between the tokenizers derived from GPT-3.5's.
struct WordRules {
  size_t max_digits;
  Letters letters = Letters::kPlain;
  Newlines newlines = Newlines::kAfterSymbols;  // newlines allowed after  ?[symbols]+
  Blanks blanks = Blanks::kRuns;
};

// (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
size_t spaced_letters(Piece piece, size_t at) {
  while (at < piece.size() && is_letter(piece[at])) {
    at = run_end(piece, at + 1, is_mark);
    const bool goes_on = at + 1 < piece.size() && piece[at].code_point == ' ';
    if (goes_on && is_letter(piece[at + 1])) ++at;
  }
  return at;
}

// [^\r\n\p{L}\p{N}]?letters
template <auto kLetters>
size_t letters_after_prefix(Piece piece, size_t at) {
  const Char& c = piece[at];
  if (is_letter(c)) return kLetters(piece, at);
  if (is_number(c) || is_newline(c)) return at;
  if (const size_t end = kLetters(piece, at + 1); end > at + 1) return end;
  return kLetters(piece, at);  // the sign may itself begin the letters, as a mark does
}

template <WordRules kRules>
bool is_symbol(const Char& c) {
  return c.char_class == CharClass::kOther &&
         !(kRules.letters == Letters::kWithMarks && is_mark(c));
}

template <WordRules kRules>
size_t symbols(Piece piece, size_t at) {
  size_t end = run_after_space<is_symbol<kRules>>(piece, at);
  if (end == at) return at;
  if (kRules.newlines == Newlines::kAfterSymbols) return run_end(piece, end, is_newline);
  if (kRules.newlines == Newlines::kOneAfterSymbols && end < piece.size()) {
    end += is_newline(piece[end]) || piece[end].code_point == '/' ? 1 : 0;
  }
  return end;
}

// \s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}
size_t blanks_in_powers_of_two(Piece piece, size_t at) {
  constexpr size_t kMost = 512;
  const size_t end = some<is_blank, kMost + 1>(piece, at);
  const size_t n =
      // without the last one if another character follows
      end - at - (end > at && end < piece.size() ? 1 : 0);
  size_t taken = kMost;
  while (taken > n && taken > 1) taken /= 2;
  return end == at ? at : at + taken;
}

template <WordRules kRules>
size_t match(Piece piece, size_t at) {
  constexpr auto kWord = kRules.letters == Letters::kSpaced ? letters_after_prefix<spaced_letters>
                         : kRules.letters == Letters::kWithMarks
                             ? letters_after_prefix<run<is_letter_or_mark>>
                             : letters_after_prefix<run<is_letter>>;
  constexpr auto kBlanks = kRules.blanks == Blanks::kPowersOfTwo ? blanks_in_powers_of_two : blanks;
  return any_of<contraction<Case::kIgnore>, kWord, some<is_number, kRules.max_digits>,
                symbols<kRules>, blanks_to_newline, kBlanks>(piece, at);
}

bool is_in_bloom_word(const Char& c) {
  constexpr std::u32string_view kLeftOut = U"(|.,!?…。，、।۔،)";
  return !is_blank(c) && kLeftOut.find(c.code_point) == kLeftOut.npos;
}

size_t gpt2(Piece piece, size_t at) {
  if (const size_t end = contraction<Case::kKeep>(piece, at); end > at) return end;
  const bool has_blank = piece[at].code_point == ' ' && at + 1 < piece.size();
  const size_t begin = at + (has_blank ? 1 : 0);
  const CharClass char_class = piece[begin].char_class;
  if (char_class == CharClass::kBlank) return blanks(piece, at);
  return run_end(piece, begin, [=](const Char& c) { return c.char_class == char_class; });
}

}  // namespace

constinit const Matcher match_gpt2 = first<gpt2>;
constinit const Matcher match_llama3 = first<match<WordRules{3}>>;
constinit const Matcher match_qwen2 = first<match<WordRules{1}>>;
constinit const Matcher match_qwen35 =
    first<match<WordRules{.max_digits = 1, .letters = Letters::kWithMarks}>>;
constinit const Matcher match_jais2 =
    first<match<WordRules{.max_digits = 3, .blanks = Blanks::kPowersOfTwo}>>;
constinit const Matcher match_seed_coder =
    first<match<WordRules{.max_digits = 1, .newlines = Newlines::kApart}>>;
constinit const Matcher match_exaone_moe = first<match<WordRules{
    .max_digits = 1, .letters = Letters::kSpaced, .newlines = Newlines::kOneAfterSymbols}>>;
constinit const Matcher match_bloom = first<run_after_space<is_in_bloom_word>>;

}  // namespace kvik
