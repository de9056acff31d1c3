#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace kvik {

// The code point of an invalid byte: one past the last code point.
inline constexpr char32_t kNotACharacter = 0x110000;

// The classes in the patterns of pre-tokenizers: \p{L}, \p{N}, \s and all others.
enum class CharClass : uint8_t { kLetter, kNumber, kBlank, kOther };

// Further properties that some patterns use, as bits. They follow from the general category.
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

// A character of a text. An invalid byte is a character of class kOther.
struct Char {
  char32_t code_point;
  CharClass char_class;
  uint8_t traits;
  uint8_t n_bytes;

  bool has(int any_of) const { return (traits & any_of) != 0; }
};

// Classifies a code point by Unicode's general category and White_Space (from ICU).
Char make_char(char32_t code_point);

inline bool is_letter(const Char& c) { return c.char_class == CharClass::kLetter; }
inline bool is_number(const Char& c) { return c.char_class == CharClass::kNumber; }
inline bool is_blank(const Char& c) { return c.char_class == CharClass::kBlank; }
inline bool is_mark(const Char& c) { return c.has(kMarkTrait); }
inline bool is_letter_or_mark(const Char& c) { return is_letter(c) || is_mark(c); }
inline bool is_digit(const Char& c) { return c.has(kDigitTrait); }
// \w
inline bool is_word(const Char& c) {
  return is_letter(c) || c.has(kMarkTrait | kDigitTrait | kConnectorTrait);
}
// [\p{P}!-/:-@\[-`{-~], as in BERT
inline bool is_punctuation(const Char& c) {
  return c.has(kPunctuationTrait) || (c.code_point < 0x80 && c.has(kSymbolTrait));
}

// The characters of a text with their classes.
class Chars {
 public:
  explicit Chars(std::string_view text);
  std::span<const Char> all() const { return {chars_.get(), n_}; }

 private:
  std::unique_ptr<Char[]> chars_;
  size_t n_ = 0;
};

// \p{Han}
bool is_han(char32_t code_point);

}  // namespace kvik
