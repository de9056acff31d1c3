#include "base/printable.h"

#include "base/utf8.h"

namespace kvik {
namespace {

constexpr size_t kMaxQuotedBytes = 200;
constexpr char32_t kPictures = 0x2400;  // U+2400 represents NUL
constexpr char32_t kDelete = 0x7F;
constexpr char32_t kPictureOfDelete = 0x2421;

bool is_control(char32_t c) { return c < 0x20 || (c >= kDelete && c < 0xA0); }

// Returns true for line separators beyond ASCII and for characters that change the writing
// direction (Unicode TR 36).
bool is_direction_control(char32_t c) {
  return (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F;
}

void append_picture(char32_t c, std::string& out) {
  if (c == kDelete) {
    append_utf8(kPictureOfDelete, out);
  } else if (c > kDelete) {  // there are no pictures for C1 control characters
    out += kReplacementCharacter;
  } else {
    append_utf8(kPictures + c, out);
  }
}

void append_with_breaks(char32_t c, std::string& out) {
  if (!is_control(c) || c == '\n' || c == '\t') {
    append_utf8(c, out);
  } else if (c != '\r') {
    append_picture(c, out);
  }
}

void append_in_line(char32_t c, std::string& out) {
  if (is_control(c) || is_direction_control(c)) {
    append_picture(c, out);
  } else {
    append_utf8(c, out);
  }
}

}  // namespace

std::string printable(std::string_view text, Breaks breaks) {
  return each_character(text, breaks == Breaks::kKept ? append_with_breaks : append_in_line);
}

std::string printable(std::string_view text) {
  std::string out = printable(text.substr(0, kMaxQuotedBytes), Breaks::kShown);
  if (text.size() > kMaxQuotedBytes) out += "…";
  return out;
}

std::string valid_utf8(std::string_view text) { return each_character(text, append_utf8); }

}  // namespace kvik
