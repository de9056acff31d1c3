#include "text/pre_tokenizer/windows.h"

#include <cstdint>

#include "base/utf8.h"
#include "text/pre_tokenizer/char_class.h"

namespace kvik {
namespace {

bool is_letter_byte(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool continues_character(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Returns the beginning of the character that contains the byte at `at`.
size_t character_begin(std::string_view text, size_t at) {
  for (int i = 0; i < 3 && at > 0 && continues_character(text[at]); ++i) --at;
  return at;
}

Char char_at(std::string_view text, size_t at) {
  const Utf8Step step = next_utf8(text, at);
  return make_char(step.kind == Utf8Step::Kind::kValid ? step.code_point : kNotACharacter);
}

}  // namespace

bool is_split_point(std::string_view text, size_t at, WindowEnds ends) {
  if (ends == WindowEnds::kNone) return false;
  if (text[at] == ' ') {
    return ends == WindowEnds::kBlanks && is_letter_byte(text[at - 1]) && at + 1 < text.size() &&
           is_letter_byte(text[at + 1]);
  }
  return text[at - 1] == '\n' && at > 1 &&
         !is_blank(char_at(text, character_begin(text, at - 2))) && is_letter(char_at(text, at));
}

size_t n_window_bytes(std::string_view text, WindowEnds ends) {
  if (text.size() <= kWindowBytes || ends == WindowEnds::kNone) return text.size();
  for (size_t at = kWindowBytes; at > 0; --at) {
    if (is_split_point(text, at, ends)) return at;
  }
  for (size_t at = kWindowBytes + 1; at < text.size(); ++at) {
    if (is_split_point(text, at, ends)) return at;
  }
  return text.size();
}

}  // namespace kvik
