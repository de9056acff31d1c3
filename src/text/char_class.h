#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik {

inline constexpr char32_t kNotACharacter = 0x110000;  // one past the last: a byte out of place

// What the patterns of pre-tokenizers tell apart: \p{L}, \p{N}, \s and the rest.
enum class CharClass : uint8_t { kLetter, kNumber, kBlank, kOther };

// What some of them tell apart beyond that, as bits: by general category.
enum CharTrait : uint8_t {
  kUpperTrait = 1,         // Lu, Lt
  kLowerTrait = 2,         // Ll
  kUncasedTrait = 4,       // Lm, Lo
  kMarkTrait = 8,          // M
  kPunctuationTrait = 16,  // P
  kSymbolTrait = 32,       // S
  kDigitTrait = 64,        // Nd
  kConnectorTrait = 128,   // Pc
};

// A character of the text; a byte that is not UTF-8 is one of its own, of class kOther.
struct Char {
  size_t begin;  // its first byte
  char32_t code_point;
  CharClass char_class;
  uint8_t traits;

  bool has(int any_of) const { return (traits & any_of) != 0; }
};

// `code_point`, beginning at byte `begin`, by Unicode's general category and White_Space (ICU).
Char make_char(size_t begin, char32_t code_point);

// \p{Han}
bool is_han(char32_t code_point);

}  // namespace kvik
