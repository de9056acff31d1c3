#include <charconv>

#include "base/utf8.h"
#include "template/jinja/lexer.h"

namespace kvik::jinja {
namespace {

// Returns the number of hexadecimal digits after \x, \u or \U; 0 for other letters.
size_t n_hex_digits(char letter) {
  return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
}

char plain_escape(char letter) {
  constexpr std::string_view kLetters = "abfnrtv";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v";
  const size_t i = kLetters.find(letter);
  return i == kLetters.npos ? '\0' : kMeanings[i];
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

std::optional<std::string> unescape(std::string_view literal) {
  std::string text;
  for (size_t at = 0; at < literal.size(); ++at) {
    if (literal[at] != '\\' || at + 1 == literal.size()) {
      text += literal[at];
      continue;
    }
    const char letter = literal[++at];
    if (const size_t n_digits = n_hex_digits(letter)) {
      uint32_t code = 0;
      const std::string_view digits = literal.substr(at + 1, n_digits);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (error != std::errc() || end != digits.data() + n_digits || code >= 0x110000) {
        return std::nullopt;
      }
      append_utf8(code, text);
      at += n_digits;
    } else if (is_octal(letter)) {
      uint32_t code = 0;
      size_t n = 0;
      for (; n < 3 && at + n < literal.size() && is_octal(literal[at + n]); ++n) {
        code = code * 8 + static_cast<uint32_t>(literal[at + n] - '0');
      }
      append_utf8(code, text);
      at += n - 1;
    } else if (letter == '\\' || letter == '\'' || letter == '"') {
      text += letter;
    } else if (const char meaning = plain_escape(letter)) {
      text += meaning;
    } else if (letter != '\n') {  // a backslash before a newline joins the lines
      text += '\\';
      text += letter;
    }
  }
  return text;
}

}  // namespace kvik::jinja
