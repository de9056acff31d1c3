#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/utf8.h"

namespace kvik::constrain {

// Limits of a textual grammar.
inline constexpr int kMaxGroupDepth = 200;
inline constexpr size_t kMaxParts = 100'000;  // of about 200 bytes each

// A cursor in a textual grammar. Its errors name the line.
class GrammarText {
 public:
  explicit GrammarText(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  // Returns '\0' at the end.
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool sees(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!sees(what)) return false;
    skip(what.size());
    return true;
  }
  void skip(size_t n_bytes) {
    for (; n_bytes > 0 && !at_end(); --n_bytes) line_ += text_[at_++] == '\n' ? 1 : 0;
  }
  template <class Is>
  std::string_view take_while(const Is& is) {
    const size_t begin = at_;
    while (!at_end() && is(text_[at_])) skip(1);
    return text_.substr(begin, at_ - begin);
  }
  std::string_view rest() const { return text_.substr(at_); }
  size_t line() const { return line_; }

  Result<char32_t> character() {
    const Utf8Step step = at_end() ? Utf8Step{} : next_utf8(text_, at_);
    if (at_end() || step.kind != Utf8Step::Kind::kValid)
      return wrong(at_end() ? "it ends unexpectedly" : "invalid UTF-8");
    skip(step.n_bytes);
    return step.code_point;
  }

  // Reads that many hexadecimal digits as a character.
  Result<char32_t> hex(size_t n_digits);
  // Reads the rest of an escape that all grammar languages have, after the backslash and `letter`.
  // Returns std::nullopt for other letters.
  Result<std::optional<char32_t>> common_escape(char letter);
  // Reads an integer below a million. Returns std::nullopt if there is none.
  Result<std::optional<uint32_t>> number();

  std::unexpected<Error> wrong(std::string_view what) const;
  std::unexpected<Error> unsupported(std::string_view what) const;

 private:
  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
};

}  // namespace kvik::constrain
