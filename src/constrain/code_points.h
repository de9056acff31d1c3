#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::constrain {

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

// A set of Unicode characters, stored as ascending, non-adjacent ranges. Never contains surrogates.
class CodePointSet {
 public:
  // An inclusive range of code points.
  struct Range {
    char32_t first;
    char32_t last;  // inclusive
    friend auto operator<=>(const Range&, const Range&) = default;
  };

  CodePointSet() = default;
  // `ranges` may be in any order and may overlap.
  CodePointSet(std::initializer_list<Range> ranges) : CodePointSet(std::vector<Range>(ranges)) {}
  explicit CodePointSet(std::vector<Range> ranges);

  static CodePointSet all();

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t c) const;
  // Returns whether the set contains a character from `first` to `last`.
  bool meets(char32_t first, char32_t last) const;

  CodePointSet operator|(const CodePointSet& other) const;
  CodePointSet operator&(const CodePointSet& other) const;
  CodePointSet complement() const;
  bool includes(const CodePointSet& other) const { return (other & complement()).empty(); }

  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<Range> ranges_;
};

// Decodes UTF-8. Each invalid byte becomes U+FFFD.
std::u32string to_characters(std::string_view utf8);

}  // namespace kvik::constrain
