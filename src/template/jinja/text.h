#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace kvik::jinja {

// Who wrote a piece of text: the template itself, or somebody whose words it was given.
enum class Origin : unsigned char { kTemplate, kGiven };

// A string of a template that knows of each byte who wrote it, however it was cut and joined:
// special tokens mean something in the template's words and nothing in a user's (THREATS 20).
// UTF-8.
class Text {
 public:
  struct Run {
    size_t end;  // in bytes; it begins where the one before ends
    Origin origin;
  };

  Text() = default;
  Text(std::string bytes, Origin origin) { append(bytes, origin); }

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // HTML already, in Jinja's eyes: what is joined to it is escaped first. Only `safe`, `escape` and
  // their kin make such texts, and some templates do use them.
  bool is_markup() const { return kind_ == Kind::kMarkup; }
  Text plain() const { return as(Kind::kPlain); }
  Text markup() const { return as(Kind::kMarkup); }
  Text like(const Text& other) const { return as(other.kind_); }

  // Cover all bytes; neighbours differ in origin.
  const std::vector<Run>& runs() const { return runs_; }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t begin, size_t n_bytes);

  // Calls take(bytes, origin) with what each author wrote, in order.
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

// Whether holds(code point) is true of all characters; the first of which it is not ends the
// search. Bytes that are no character count as U+0000.
template <class Holds>
bool all_characters(std::string_view text, const Holds& holds) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(text, at);
    if (!holds(static_cast<int32_t>(step.code_point))) return false;
    at += step.n_bytes;
  }
  return true;
}

// Offsets count characters in templates, as in Python.
size_t n_characters(std::string_view text);
size_t byte_of_character(std::string_view text, size_t index);  // its size where there are fewer

}  // namespace kvik::jinja
