#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace kvik::constrain {

// A cursor in a regular expression. Its errors name the position.
class PatternCursor {
 public:
  explicit PatternCursor(std::u32string text) : text_(std::move(text)) {}

  bool done() const { return at_ >= text_.size(); }
  size_t n_left() const { return text_.size() - at_; }
  // Returns U'\0' after the end.
  char32_t peek(size_t ahead = 0) const { return ahead < n_left() ? text_[at_ + ahead] : U'\0'; }
  // Reads one character. Must not be called at the end.
  char32_t next() { return text_[at_++]; }
  bool take(char32_t c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (!std::u32string_view(text_).substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::unexpected<Error> wrong(std::string_view expected) const {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the regular expression is wrong at character {}: expected {}", at_, expected));
  }
  std::unexpected<Error> unsupported(std::string_view what) const {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the regular expression has {} at character {}, which is not supported",
                            what, at_));
  }

 private:
  std::u32string text_;
  size_t at_ = 0;
};

}  // namespace kvik::constrain
