#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

// Line breaks that printable() keeps.
enum class Breaks : uint8_t {
  kShown,  // keeps none, for one line: of a log, a label, a name
  // Keeps line feeds and tabs. Carriage returns are removed, so that a line cannot overwrite the
  // one before it.
  kKept,
};

// Returns untrusted text in a form that is safe to display. All untrusted text passes through this
// function. ASCII control characters, which could move a cursor, rename a window, simulate typing
// or start a log line, become their Unicode pictures (U+241B for ESC). C1 control characters and
// invalid UTF-8 become U+FFFD, and with kShown also Unicode line separators and characters that
// change the writing direction.
std::string printable(std::string_view text, Breaks breaks);

// Returns at most 200 bytes of the text, made printable without line breaks and followed by "…" if
// the text is longer. Used to quote text in messages.
std::string printable(std::string_view text);

// Returns the text with every maximal invalid UTF-8 sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// An untrusted name that was made printable, and is safe for a terminal, a log, a label and JSON.
// The constructor converts any text.
class Printable {
 public:
  Printable() = default;
  Printable(std::string_view outside) : text_(printable(outside, Breaks::kShown)) {}
  Printable(const std::string& outside) : Printable(std::string_view(outside)) {}
  Printable(const char* outside) : Printable(std::string_view(outside)) {}

  const std::string& text() const { return text_; }

  friend bool operator==(const Printable& a, const Printable& b) = default;

 private:
  std::string text_;
};

}  // namespace kvik

template <>
struct fmt::formatter<kvik::Printable> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const kvik::Printable& name, Context& context) const {
    return fmt::formatter<std::string_view>::format(name.text(), context);
  }
};
