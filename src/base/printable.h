#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvik {

// What of a text that steers where lines end may stay.
enum class Breaks : uint8_t {
  kShown,  // nothing: one line of a log, a label, a name
  kKept,   // line ends and tabs; carriage returns go, so that a line hides none before it
};

// Text from outside as people and their programs may see it, the one way of it for all floors:
// control characters, which could move a cursor, rename a window, type for the user or begin a line
// of a log, become pictures of themselves (U+241B for ESC); where no breaks are kept also those
// that turn the direction of writing; bytes that are no UTF-8 become U+FFFD.
std::string printable(std::string_view text, Breaks breaks);

// The same in one line, of at most 200 bytes of the text: for what a message quotes.
std::string printable(std::string_view text);

// Every maximal run of bytes that is no UTF-8 becomes U+FFFD, and nothing else changes.
std::string valid_utf8(std::string_view text);

// A name from outside that was made printable: whoever holds one may send it to a terminal, a log,
// a label and into JSON. Any text becomes one by being put here.
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
