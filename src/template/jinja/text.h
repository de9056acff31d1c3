#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace kvik::jinja {

// The origin of a piece of text: the template, or the request.
enum class Origin : unsigned char { kTemplate, kGiven };

// A UTF-8 string that records the origin of each byte, also when texts are cut and joined. Special
// tokens are recognized only in the template's own text, never in a user's.
class Text {
 public:
  struct Run {
    size_t end;  // in bytes; the run begins at the end of the previous one
    Origin origin;
  };

  Text() = default;
  Text(std::string bytes, Origin origin) { append(bytes, origin); }

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // Returns whether the text is markup, which in Jinja is text that is HTML already: text joined to
  // it is escaped first. `safe`, `escape` and similar filters create markup.
  bool is_markup() const { return kind_ == Kind::kMarkup; }
  Text plain() const { return as(Kind::kPlain); }
  Text markup() const { return as(Kind::kMarkup); }
  Text like(const Text& other) const { return as(other.kind_); }

  // Returns the runs. They cover all bytes, and adjacent runs differ in origin.
  const std::vector<Run>& runs() const { return runs_; }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t begin, size_t n_bytes);

  // Calls take(bytes, origin) for each run in order.
  template <class Take>
  void each_run(const Take& take) const {
    size_t begin = 0;
    for (const Run& run : runs_) {
      take(view().substr(begin, run.end - begin), run.origin);
      begin = run.end;
    }
  }

  Text substr(size_t begin, size_t n_bytes) const;

 private:
  enum class Kind : unsigned char { kPlain, kMarkup };
  Text as(Kind kind) const;

  std::string bytes_;
  std::vector<Run> runs_;
  Kind kind_ = Kind::kPlain;
};

// Returns whether holds(code point) is true for all characters. Stops at the first for which it is
// false. An invalid byte counts as U+0000.
template <class Holds>
bool all_characters(std::string_view text, const Holds& holds) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    if (!holds(static_cast<int32_t>(step.code_point))) return false;
    at += step.n_bytes;
  }
  return true;
}

// Return the number of characters, and the byte offset of a character. Like Python, templates count
// offsets in characters.
size_t n_characters(std::string_view text);
// Returns the size of the text if it has fewer characters.
size_t byte_of_character(std::string_view text, size_t index);

}  // namespace kvik::jinja
