#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// One step through bytes that claim to be UTF-8.
struct Utf8Step {
  enum class Kind : uint8_t {
    kValid,       // code_point, in n_bytes
    kInvalid,     // n_bytes that no character begins with: one U+FFFD in decoded text
    kIncomplete,  // the text ends in these n_bytes, and more could still make them a character
  };
  Kind kind;
  uint8_t n_bytes;
  char32_t code_point;  // of kValid only
};

// The step at `at` < text.size(). Invalid bytes are grouped into maximal subparts, as browsers do
// (WHATWG Encoding, "UTF-8 decoder"; Unicode 15, table 3-7).
Utf8Step next_utf8(std::string_view text, size_t at);

// How many bytes the character at `at` < text.size() has; 1 where none begins there.
inline size_t n_character_bytes(std::string_view text, size_t at) {
  const Utf8Step step = next_utf8(text, at);
  return step.kind == Utf8Step::Kind::kValid ? step.n_bytes : 1;
}

// Appends a character below 0x110000.
void append_utf8(char32_t code_point, std::string& text);

// `text` with what change(code point, out) appends in the place of each character; bytes that are
// none count as U+FFFD.
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
