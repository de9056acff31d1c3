#include "constrain/pattern/character_class.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "constrain/unicode_class.h"

namespace kvik::constrain {
namespace {

CodePointSet digits() { return {{U'0', U'9'}}; }
CodePointSet word_characters() { return {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}}; }
CodePointSet blanks() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

std::optional<uint32_t> hex_value(char32_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return {};
}

std::optional<CodePointSet> class_escape(char32_t c) {
  switch (c) {
    case 'd':
      return digits();
    case 'D':
      return digits().complement();
    case 'w':
      return word_characters();
    case 'W':
      return word_characters().complement();
    case 's':
      return blanks();
    case 'S':
      return blanks().complement();
    default:
      return {};
  }
}

// Reads \p{…} or \P{…}, after the backslash.
Result<CodePointSet> read_property(PatternCursor& in) {
  bool negated = in.next() == U'P';
  if (!in.take(U'{')) return in.wrong("{ and the name of a property");
  std::string name;
  while (!in.done() && in.peek() != U'}') name.push_back(static_cast<char>(in.next() & 0x7F));
  if (!in.take(U'}')) return in.wrong("}");
  if (!name.empty() && name.front() == '^') {
    negated = !negated;
    name.erase(0, 1);
  }
  const auto set = unicode_class(name);
  if (!set) return in.wrong(fmt::format("a property of Unicode, not {}", name));
  return negated ? set->complement() : *set;
}

Result<char32_t> read_hex(PatternCursor& in, size_t n_digits) {
  char32_t value = 0;
  for (size_t i = 0; i < n_digits; ++i, in.next()) {
    const auto digit = hex_value(in.peek());
    if (in.done() || !digit) return in.wrong("a hexadecimal digit");
    value = value << 4 | *digit;
  }
  return value;
}

Result<char32_t> read_unicode_escape(PatternCursor& in) {
  if (in.take(U'{')) {
    char32_t value = 0;
    while (!in.done() && hex_value(in.peek()) && value <= kMaxCodePoint) {
      value = value << 4 | *hex_value(in.next());
    }
    if (!in.take(U'}') || value > kMaxCodePoint) return in.wrong("a character's number and }");
    return value;
  }
  TRY_ASSIGN(const char32_t value, read_hex(in, 4));
  if (value < 0xD800 || value > 0xDBFF) return value;
  if (!in.take(U"\\u")) return in.wrong("the second half of a pair of surrogates");
  TRY_ASSIGN(const char32_t low, read_hex(in, 4));
  if (low < 0xDC00 || low > 0xDFFF) return in.wrong("the second half of a pair of surrogates");
  return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
}

struct ClassItem {
  CodePointSet set;
  std::optional<char32_t> one;
};

Result<ClassItem> read_posix_class(PatternCursor& in) {
  std::string name;
  while (!in.done() && in.peek() != U':') name.push_back(static_cast<char>(in.next() & 0x7F));
  if (!in.take(U":]")) return in.wrong(":]");
  const CodePointSet letters{{U'A', U'Z'}, {U'a', U'z'}};
  if (name == "alpha") return ClassItem{letters, {}};
  if (name == "digit") return ClassItem{digits(), {}};
  if (name == "alnum") return ClassItem{letters | digits(), {}};
  if (name == "upper") return ClassItem{{{U'A', U'Z'}}, {}};
  if (name == "lower") return ClassItem{{{U'a', U'z'}}, {}};
  if (name == "space") return ClassItem{blanks(), {}};
  if (name == "xdigit") return ClassItem{digits() | CodePointSet{{U'A', U'F'}, {U'a', U'f'}}, {}};
  if (name == "punct") return ClassItem{{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}, {}};
  return in.wrong(fmt::format("a class of characters, not {}", name));
}

Result<ClassItem> read_class_item(PatternCursor& in) {
  if (in.take(U"[:")) return read_posix_class(in);
  if (!in.take(U'\\')) {
    const char32_t c = in.next();
    return ClassItem{{{c, c}}, c};
  }
  if (in.done()) return in.wrong("a character after the backslash");
  TRY_ASSIGN(std::optional<CodePointSet> set, read_set_escape(in));
  if (set) return ClassItem{*std::move(set), {}};
  TRY_ASSIGN(const char32_t c, read_character_escape(in, EscapePlace::kClass));
  return ClassItem{{{c, c}}, c};
}

}  // namespace

CodePointSet line_ends() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

Result<std::optional<CodePointSet>> read_set_escape(PatternCursor& in) {
  if (auto set = class_escape(in.peek())) {
    in.next();
    return set;
  }
  if (in.peek() != U'p' && in.peek() != U'P') return std::optional<CodePointSet>();
  return read_property(in);
}

Result<char32_t> read_character_escape(PatternCursor& in, EscapePlace place) {
  const char32_t c = in.next();
  switch (c) {
    case 'n':
      return U'\n';
    case 'r':
      return U'\r';
    case 't':
      return U'\t';
    case 'f':
      return U'\f';
    case 'v':
      return U'\v';
    case 'a':
      return U'\a';
    case 'e':
      return U'\x1B';
    case 'b':
      if (place == EscapePlace::kClass) return U'\b';
      break;
    case 'x':
      return read_hex(in, 2);
    case 'u':
      return read_unicode_escape(in);
    case 'c':
      if (!in.done()) return in.next() & 0x1F;
      break;
    case '0':
      if (in.peek() < U'0' || in.peek() > U'9') return U'\0';
      break;
    default:
      break;
  }
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (c >= '0' && c <= '9') return in.unsupported("a back reference");
  if (is_letter && (c == 'b' || c == 'B')) return in.unsupported("a word's boundary");
  if (is_letter) return in.wrong("an escape that is known");
  return c;
}

Result<CharacterClass> read_class(PatternCursor& in) {
  const bool negated = in.take(U'^');
  std::vector<CodePointSet::Range> ranges;
  const auto add = [&](const CodePointSet& set) {
    ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
  };
  while (!in.done() && in.peek() != U']') {
    TRY_ASSIGN(const ClassItem first, read_class_item(in));
    const bool is_range = in.peek() == U'-' && in.n_left() > 1 && in.peek(1) != U']';
    if (!is_range || !first.one) {
      add(first.set);
      continue;
    }
    in.next();
    TRY_ASSIGN(const ClassItem last, read_class_item(in));
    if (!last.one) {
      add(first.set);
      add({{U'-', U'-'}});
      add(last.set);
    } else if (*last.one < *first.one) {
      return in.wrong("a range that ascends");
    } else {
      ranges.push_back({*first.one, *last.one});
    }
  }
  if (!in.take(U']')) return in.wrong("]");
  return CharacterClass{CodePointSet(std::move(ranges)), negated};
}

}  // namespace kvik::constrain
