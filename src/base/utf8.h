#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// A step of decoding bytes as UTF-8.
struct Utf8Step {
  enum class Kind : uint8_t {
    kValid,       // code_point, encoded in n_bytes
    kInvalid,     // n_bytes that are invalid: one U+FFFD in decoded text
    kIncomplete,  // the text ends with these n_bytes, which more bytes could complete
  };
  Kind kind;
  uint8_t n_bytes;
  char32_t code_point;  // set for kValid only
};

// Decodes at `at` < text.size(). Invalid bytes are grouped into maximal subparts, as in browsers
// (WHATWG Encoding, "UTF-8 decoder"; Unicode 15, table 3-7).
Utf8Step next_utf8(std::string_view text, size_t at);

// Returns the length in bytes of the character at `at` < text.size(); 1 if there is none.
inline size_t n_character_bytes(std::string_view text, size_t at) {
  const Utf8Step step = next_utf8(text, at);
  return step.kind == Utf8Step::Kind::kValid ? step.n_bytes : 1;
}

// Appends a character below 0x110000.
void append_utf8(char32_t code_point, std::string& text);

// Returns the text with each character replaced by what change(code point, out) appends. Invalid
// bytes count as U+FFFD.
template <class Change>
std::string each_character(std::string_view text, const Change& change) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    change(step.kind == Utf8Step::Kind::kValid ? step.code_point : U'\uFFFD', out);
    at += step.n_bytes;
  }
  return out;
}

}  // namespace kvik
