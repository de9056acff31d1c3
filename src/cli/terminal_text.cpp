#include "cli/terminal_text.h"

#include "text/utf8.h"

namespace kvik {
namespace {

constexpr char32_t kPictures = 0x2400;  // U+2400 is NUL's
constexpr char32_t kDelete = 0x7F;
constexpr char32_t kPictureOfDelete = 0x2421;

bool is_control(char32_t c) { return c < 0x20 || (c >= kDelete && c < 0xA0); }

void append_harmless(char32_t c, std::string& out) {
  if (!is_control(c) || c == '\n' || c == '\t') {
    append_utf8(c, out);
  } else if (c == kDelete) {
    append_utf8(kPictureOfDelete, out);
  } else if (c > kDelete) {  // C1 has no pictures
    out += kReplacementCharacter;
  } else if (c != '\r') {
    append_utf8(kPictures + c, out);
  }
}

}  // namespace

std::string terminal_text(std::string_view text) { return each_character(text, append_harmless); }

std::string valid_utf8(std::string_view text) { return each_character(text, append_utf8); }

}  // namespace kvik
