#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

// Line breaks that remain in a printable text.
enum class Breaks : uint8_t {
  kShown,  // none: for a line of a log, a label, a name
  // line feeds and tabs; carriage returns are removed, so that a line cannot overwrite the one
  // before it
  kKept,
};

// Returns untrusted text in a form that is safe to display; the only such function. Control
// characters, which could move a cursor, rename a window, simulate typing or start a log line,
// become their Unicode pictures (U+241B for ESC). Without line breaks this includes characters that
// change the writing direction. Invalid UTF-8 becomes U+FFFD.
std::string printable(std::string_view text, Breaks breaks);

// Returns the same without line breaks, for at most 200 bytes of the text: for quotes in messages.
std::string printable(std::string_view text);

// Replaces every maximal invalid UTF-8 sequence by U+FFFD and changes nothing else.
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
