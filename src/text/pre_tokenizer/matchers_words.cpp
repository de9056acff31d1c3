#include <algorithm>
#include <array>
#include <string_view>

#include "text/pre_tokenizer/matcher_parts.h"
#include "text/pre_tokenizer/matchers.h"

namespace kvik {
namespace {

using namespace matcher;

enum class Letters { kPlain, kWithMarks, kSpaced };
enum class Newlines { kApart, kAfterSymbols, kOneAfterSymbols };
enum class Blanks { kRuns, kPowersOfTwo };

// What the tokenizers after GPT-3.5's differ in.
struct WordRules {
  size_t max_digits;
  Letters letters = Letters::kPlain;
  Newlines newlines = Newlines::kAfterSymbols;  // what may follow  ?[symbols]+
  Blanks blanks = Blanks::kRuns;
};

bool is_letter(const Char& c) { return c.char_class == CharClass::kLetter; }
bool is_mark(const Char& c) { return c.has(kMarkTrait); }

// (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
size_t spaced_letters(Piece piece, size_t at) {
  while (at < piece.size() && is_letter(piece[at])) {
    at = run_end(piece, at + 1, is_mark);
    const bool goes_on = at + 1 < piece.size() && piece[at].code_point == ' ';
    if (goes_on && is_letter(piece[at + 1])) ++at;
  }
  return at;
}

template <Letters kLetters>
size_t letters(Piece piece, size_t at) {
  if constexpr (kLetters == Letters::kSpaced) return spaced_letters(piece, at);
  if constexpr (kLetters == Letters::kWithMarks) {
    return run_end(piece, at, [](const Char& c) { return is_letter(c) || is_mark(c); });
  }
  return run_end(piece, at, is_letter);
}

// [^\r\n\p{L}\p{N}]?letters
template <Letters kLetters>
size_t word(Piece piece, size_t at) {
  const Char& c = piece[at];
  if (c.char_class == CharClass::kLetter) return letters<kLetters>(piece, at);
  if (c.char_class == CharClass::kNumber || is_newline(c)) return at;
  if (const size_t end = letters<kLetters>(piece, at + 1); end > at + 1) return end;
  return letters<kLetters>(piece, at);  // a mark alone
}

template <WordRules kRules>
size_t symbols(Piece piece, size_t at) {
  const size_t begin = at + (piece[at].code_point == ' ' ? 1 : 0);
  size_t end = run_end(piece, begin, [](const Char& c) {
    return c.char_class == CharClass::kOther &&
           !(kRules.letters == Letters::kWithMarks && is_mark(c));
  });
  if (end == begin) return at;
  if (kRules.newlines == Newlines::kAfterSymbols) return run_end(piece, end, is_newline);
  if (kRules.newlines == Newlines::kOneAfterSymbols && end < piece.size()) {
    end += is_newline(piece[end]) || piece[end].code_point == '/' ? 1 : 0;
  }
  return end;
}

// \s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}
size_t blanks_in_powers_of_two(Piece piece, size_t at) {
  constexpr size_t kMost = 512;
  const Piece near = piece.first(std::min(piece.size(), at + kMost + 1));
  const size_t end = run_end(near, at, CharClass::kBlank);
  const size_t n =
      end - at - (end > at && end < piece.size() ? 1 : 0);  // before another, or the end
  size_t taken = kMost;
  while (taken > n && taken > 1) taken /= 2;
  return end == at ? at : at + taken;
}

template <WordRules kRules>
size_t match(Piece piece, size_t at) {
  if (const size_t end = contraction(piece, at, Case::kIgnore); end > at) return end;
  if (const size_t end = word<kRules.letters>(piece, at); end > at) return end;
  if (piece[at].char_class == CharClass::kNumber) {
    const Piece near = piece.first(std::min(piece.size(), at + kRules.max_digits));
    return run_end(near, at, CharClass::kNumber);
  }
  if (const size_t end = symbols<kRules>(piece, at); end > at) return end;
  if (const size_t end = blanks_to_newline(piece, at); end > at) return end;
  if (kRules.blanks == Blanks::kPowersOfTwo) return blanks_in_powers_of_two(piece, at);
  return blanks(piece, at);
}

bool is_in_bloom_word(const Char& c) {
  constexpr std::u32string_view kLeftOut = U"(|.,!?…。，、।۔،)";
  return c.char_class != CharClass::kBlank && kLeftOut.find(c.code_point) == kLeftOut.npos;
}

size_t gpt2_at(Piece piece, size_t at) {
  if (const size_t end = contraction(piece, at, Case::kKeep); end > at) return end;
  const bool has_blank = piece[at].code_point == ' ' && at + 1 < piece.size();
  const size_t begin = at + (has_blank ? 1 : 0);
  const CharClass char_class = piece[begin].char_class;
  if (char_class == CharClass::kBlank) return blanks(piece, at);
  return run_end(piece, begin, char_class);
}

size_t llama3_at(Piece piece, size_t at) { return match<WordRules{3}>(piece, at); }
size_t qwen2_at(Piece piece, size_t at) { return match<WordRules{1}>(piece, at); }

size_t qwen35_at(Piece piece, size_t at) {
  return match<WordRules{.max_digits = 1, .letters = Letters::kWithMarks}>(piece, at);
}

size_t jais2_at(Piece piece, size_t at) {
  return match<WordRules{.max_digits = 3, .blanks = Blanks::kPowersOfTwo}>(piece, at);
}

size_t seed_coder_at(Piece piece, size_t at) {
  return match<WordRules{.max_digits = 1, .newlines = Newlines::kApart}>(piece, at);
}

size_t exaone_moe_at(Piece piece, size_t at) {
  return match<WordRules{
      .max_digits = 1, .letters = Letters::kSpaced, .newlines = Newlines::kOneAfterSymbols}>(piece,
                                                                                             at);
}

size_t bloom_at(Piece piece, size_t at) {
  const size_t begin = at + (piece[at].code_point == ' ' ? 1 : 0);
  const size_t end = run_end(piece, begin, is_in_bloom_word);
  return end > begin ? end : at;
}

}  // namespace

Match match_gpt2(Piece piece, size_t from) { return first<gpt2_at>(piece, from); }
Match match_llama3(Piece piece, size_t from) { return first<llama3_at>(piece, from); }
Match match_qwen2(Piece piece, size_t from) { return first<qwen2_at>(piece, from); }
Match match_qwen35(Piece piece, size_t from) { return first<qwen35_at>(piece, from); }
Match match_jais2(Piece piece, size_t from) { return first<jais2_at>(piece, from); }
Match match_seed_coder(Piece piece, size_t from) { return first<seed_coder_at>(piece, from); }
Match match_exaone_moe(Piece piece, size_t from) { return first<exaone_moe_at>(piece, from); }
Match match_bloom(Piece piece, size_t from) { return first<bloom_at>(piece, from); }

}  // namespace kvik
