#include "constrain/front/grammar_text.h"

#include <fmt/format.h>

#include "constrain/code_points.h"

namespace kvik::constrain {

Result<char32_t> GrammarText::hex(size_t n_digits) {
  const std::string_view digits = text_.substr(at_, n_digits);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() < n_digits || error != std::errc{} || end != digits.data() + digits.size())
    return wrong("an escape without its digits");
  if (code > kMaxCodePoint || (code >= 0xD800 && code <= 0xDFFF))
    return wrong("an escape that is not a character");
  skip(n_digits);
  return static_cast<char32_t>(code);
}

Result<std::optional<char32_t>> GrammarText::common_escape(char letter) {
  switch (letter) {
    case 'x':
      return hex(2);
    case 'u':
      return hex(4);
    case 'U':
      return hex(8);
    case 't':
      return U'\t';
    case 'r':
      return U'\r';
    case 'n':
      return U'\n';
    default:
      return std::optional<char32_t>();
  }
}

Result<std::optional<uint32_t>> GrammarText::number() {
  constexpr uint32_t kMost = 1'000'000;
  const std::string_view digits = take_while([](char c) { return c >= '0' && c <= '9'; });
  if (digits.empty()) return std::optional<uint32_t>();
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || number > kMost) return wrong(fmt::format("a number above {}", kMost));
  return std::optional(number);
}

std::unexpected<Error> GrammarText::wrong(std::string_view what) const {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("the grammar is wrong in line {}: {}", line_, what));
}

std::unexpected<Error> GrammarText::unsupported(std::string_view what) const {
  return fail(ErrorCode::kUnsupported,
              fmt::format("the grammar has {} in line {}, which is not supported", what, line_));
}

}  // namespace kvik::constrain
