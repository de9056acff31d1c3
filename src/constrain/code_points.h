#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::constrain {

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

// A set of Unicode characters: ranges that ascend and do not touch. Surrogates are never in it.
class CodePointSet {
 public:
  struct Range {
    char32_t first;
    char32_t last;  // inclusive
    friend auto operator<=>(const Range&, const Range&) = default;
  };

  CodePointSet() = default;
  // In any order; they may overlap.
  CodePointSet(std::initializer_list<Range> ranges) : CodePointSet(std::vector<Range>(ranges)) {}
  explicit CodePointSet(std::vector<Range> ranges);

  static CodePointSet all();

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t c) const;
  // Some character from `first` to `last` is in it.
  bool meets(char32_t first, char32_t last) const;

  CodePointSet operator|(const CodePointSet& other) const;
  CodePointSet operator&(const CodePointSet& other) const;
  CodePointSet complement() const;
  bool includes(const CodePointSet& other) const { return (other & complement()).empty(); }

  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<Range> ranges_;
};

// The characters of UTF-8; U+FFFD in the place of bytes that are none.
std::u32string to_characters(std::string_view utf8);

}  // namespace kvik::constrain
