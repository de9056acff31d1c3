#include "text/grammar/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "text/grammar/schema/json.h"
#include "text/grammar/unicode_class.h"

namespace kvik::grammar {
namespace {

constexpr uint32_t kUnbounded = RegularPool::kUnbounded;
constexpr int kMaxDepth = 200;
constexpr uint32_t kMaxRepeat = 100'000;
constexpr size_t kMaxBytes = size_t{1} << 18;

// A regular expression's tree. Plain parts are expressions already.
struct Part {
  enum class Kind : uint8_t { kPlain, kBegin, kEnd, kSequence, kChoice, kRepeat, kLook, kNotLook };
  Kind kind = Kind::kPlain;
  Regular plain = Regular::kEmptyText;
  std::vector<Part> parts = {};
  uint32_t min = 0, max = 0;
};

CodePointSet digits() { return {{U'0', U'9'}}; }
CodePointSet word_characters() { return {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}}; }
CodePointSet blanks() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CodePointSet line_ends() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

std::optional<uint32_t> hex_value(char32_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return {};
}

class PatternParser {
 public:
  PatternParser(RegularPool& pool, std::u32string text, const PatternOptions& options)
      : pool_(pool),
        text_(std::move(text)),
        flags_{options.letters == PatternOptions::Letters::kCaseless,
               options.dot == PatternOptions::Dot::kAny} {}

  Result<Part> run() {
    TRY_ASSIGN(Part part, read_choice(0));
    if (at_ < text_.size()) return wrong("an expression, not )");
    return part;
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0';
  }
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
                fmt::format("the regular expression has {} at character {}, which no automaton "
                            "can keep to",
                            what, at_));
  }

  Part plain(Regular r) const { return {Part::Kind::kPlain, r}; }
  CodePointSet cased(const CodePointSet& set) const {
    return flags_.caseless ? without_case(set) : set;
  }
  Part characters(const CodePointSet& set) { return plain(pool_.characters(cased(set))); }

  Result<Part> read_choice(int depth) {
    if (depth > kMaxDepth) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the regular expression is nested over {} levels deep", kMaxDepth));
    }
    Part made{Part::Kind::kChoice};
    do {
      TRY_ASSIGN(Part part, read_sequence(depth));
      made.parts.push_back(std::move(part));
    } while (take(U'|'));
    if (made.parts.size() == 1) return std::move(made.parts.front());
    const auto is_plain = [](const Part& p) { return p.kind == Part::Kind::kPlain; };
    if (!std::ranges::all_of(made.parts, is_plain)) return made;
    std::vector<Regular> all;
    for (const Part& part : made.parts) all.push_back(part.plain);
    return plain(pool_.choice(all));
  }

  Result<Part> read_sequence(int depth) {
    Part made{Part::Kind::kSequence};
    std::vector<Regular> run;  // of plain parts
    const auto end_run = [&] {
      if (!run.empty()) made.parts.push_back(plain(pool_.sequence(run)));
      run.clear();
    };
    while (!done() && peek() != U'|' && peek() != U')') {
      TRY_ASSIGN(Part part, read_repeated(depth));
      if (part.kind == Part::Kind::kPlain) {
        run.push_back(part.plain);
      } else {
        end_run();
        made.parts.push_back(std::move(part));
      }
    }
    end_run();
    if (made.parts.empty()) return plain(Regular::kEmptyText);
    if (made.parts.size() == 1) return std::move(made.parts.front());
    return made;
  }

  Result<Part> read_repeated(int depth) {
    TRY_ASSIGN(Part part, read_one(depth));
    while (!done()) {
      uint32_t min = 0, max = kUnbounded;
      if (take(U'+')) {
        min = 1;
      } else if (take(U'?')) {
        max = 1;
      } else if (peek() == U'{' && is_bounds()) {
        TRY(read_bounds(min, max));
      } else if (!take(U'*')) {
        return part;
      }
      if (!take(U'?') && peek() == U'+') return unsupported("a possessive repeat");
      if (part.kind == Part::Kind::kPlain) {
        part = plain(pool_.repeat(part.plain, min, max));
      } else {
        Part repeated{Part::Kind::kRepeat};
        repeated.min = min;
        repeated.max = max;
        repeated.parts.push_back(std::move(part));
        part = std::move(repeated);
      }
    }
    return part;
  }

  // Elsewhere a brace is itself, as all engines have it that are not strict.
  bool is_bounds() const {
    size_t i = at_ + 1;
    const auto skip_digits = [&] {
      const size_t begin = i;
      while (i < text_.size() && text_[i] >= '0' && text_[i] <= '9') ++i;
      return i > begin;
    };
    const bool has_min = skip_digits();
    if (i < text_.size() && text_[i] == ',') {
      ++i;
      skip_digits();
    }
    return has_min && i < text_.size() && text_[i] == '}';
  }

  uint32_t read_number() {
    uint64_t number = 0;
    for (; !done() && peek() >= '0' && peek() <= '9'; ++at_) {
      number = std::min<uint64_t>(number * 10 + (peek() - '0'), UINT32_MAX);
    }
    return static_cast<uint32_t>(number);
  }

  Result<void> read_bounds(uint32_t& min, uint32_t& max) {
    take(U'{');
    min = max = read_number();
    if (take(U',')) max = peek() == U'}' ? kUnbounded : read_number();
    take(U'}');
    if (min > kMaxRepeat || (max > kMaxRepeat && max != kUnbounded)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the regular expression repeats up to {} times; expected at most {}",
                              max == kUnbounded ? min : max, kMaxRepeat));
    }
    if (max < min) return wrong("bounds that ascend");
    return {};
  }

  Result<Part> read_one(int depth) {
    if (take(U'(')) return read_group(depth);
    if (take(U'[')) return read_class();
    if (take(U'\\')) return read_escape();
    if (take(U'.')) {
      return plain(flags_.dot_is_any ? pool_.any_character()
                                     : pool_.characters(line_ends().complement()));
    }
    if (take(U'^')) return Part{Part::Kind::kBegin};
    if (take(U'$')) return Part{Part::Kind::kEnd};
    if (peek() == U'*' || peek() == U'+' || peek() == U'?') return wrong("something to repeat");
    return characters({{text_[at_], text_[at_++]}});
  }

  Result<Part> read_group(int depth) {
    const Flags flags_around = flags_;
    auto kind = Part::Kind::kPlain;
    if (take(U"?:")) {
    } else if (take(U"?=")) {
      kind = Part::Kind::kLook;
    } else if (take(U"?!")) {
      kind = Part::Kind::kNotLook;
    } else if (take(U"?<=") || take(U"?<!")) {
      return unsupported("lookbehind");
    } else if (take(U"?<") || take(U"?P<")) {
      while (!done() && peek() != U'>') ++at_;
      if (!take(U'>')) return wrong(">");
    } else if (take(U'?')) {
      TRY_ASSIGN(const bool is_group, read_flags());
      if (!is_group) return plain(Regular::kEmptyText);
    }
    TRY_ASSIGN(Part inner, read_choice(depth + 1));
    if (!take(U')')) return wrong(")");
    flags_ = flags_around;
    if (kind == Part::Kind::kPlain) return inner;
    Part look{kind};
    look.parts.push_back(std::move(inner));
    return look;
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

  Result<CodePointSet> read_property(bool negated) {
    if (!take(U'{')) return wrong("{ and the name of a property");
    std::string name;
    for (; !done() && peek() != U'}'; ++at_) name.push_back(static_cast<char>(peek() & 0x7F));
    if (!take(U'}')) return wrong("}");
    if (!name.empty() && name.front() == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    const auto set = unicode_class(name);
    if (!set) return wrong(fmt::format("a property of Unicode, not {}", name));
    return negated ? set->complement() : *set;
  }

  Result<char32_t> read_hex(size_t n_digits) {
    char32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i, ++at_) {
      const auto digit = hex_value(peek());
      if (done() || !digit) return wrong("a hexadecimal digit");
      value = value << 4 | *digit;
    }
    return value;
  }

  Result<char32_t> read_unicode_escape() {
    if (take(U'{')) {
      char32_t value = 0;
      for (; !done() && hex_value(peek()) && value <= kMaxCodePoint; ++at_) {
        value = value << 4 | *hex_value(peek());
      }
      if (!take(U'}') || value > kMaxCodePoint) return wrong("a character's number and }");
      return value;
    }
    TRY_ASSIGN(const char32_t value, read_hex(4));
    if (value < 0xD800 || value > 0xDBFF) return value;
    if (!take(U"\\u")) return wrong("the second half of a pair of surrogates");
    TRY_ASSIGN(const char32_t low, read_hex(4));
    if (low < 0xDC00 || low > 0xDFFF) return wrong("the second half of a pair of surrogates");
    return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
  }

  // Of one character, behind the backslash.
  Result<char32_t> read_character_escape(bool in_class) {
    const char32_t c = text_[at_++];
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
        if (in_class) return U'\b';
        break;
      case 'x':
        return read_hex(2);
      case 'u':
        return read_unicode_escape();
      case 'c':
        if (!done()) return text_[at_++] & 0x1F;
        break;
      case '0':
        if (peek() < U'0' || peek() > U'9') return U'\0';
        break;
      default:
        break;
    }
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c >= '0' && c <= '9') return unsupported("a back reference");
    if (is_letter && (c == 'b' || c == 'B')) return unsupported("a word's boundary");
    if (is_letter) return wrong("an escape that is known");
    return c;
  }

  Result<Part> read_escape() {
    if (done()) return wrong("a character behind the backslash");
    if (const auto set = class_escape(peek())) {
      ++at_;
      return characters(*set);
    }
    if (peek() == U'p' || peek() == U'P') {
      const bool negated = text_[at_++] == U'P';
      TRY_ASSIGN(const CodePointSet set, read_property(negated));
      return characters(set);
    }
    if (take(U'A')) return Part{Part::Kind::kBegin};
    if (take(U'z') || take(U'Z')) return Part{Part::Kind::kEnd};
    if (peek() == U'k') return unsupported("a back reference");
    TRY_ASSIGN(const char32_t c, read_character_escape(false));
    return characters({{c, c}});
  }

  struct ClassItem {
    CodePointSet set;
    std::optional<char32_t> one;
  };

  Result<ClassItem> read_class_item() {
    if (take(U"[:")) return read_posix_class();
    if (!take(U'\\')) {
      const char32_t c = text_[at_++];
      return ClassItem{{{c, c}}, c};
    }
    if (done()) return wrong("a character behind the backslash");
    if (const auto set = class_escape(peek())) {
      ++at_;
      return ClassItem{*set, {}};
    }
    if (peek() == U'p' || peek() == U'P') {
      const bool negated = text_[at_++] == U'P';
      TRY_ASSIGN(CodePointSet set, read_property(negated));
      return ClassItem{std::move(set), {}};
    }
    TRY_ASSIGN(const char32_t c, read_character_escape(true));
    return ClassItem{{{c, c}}, c};
  }

  Result<ClassItem> read_posix_class() {
    std::string name;
    while (!done() && peek() != U':') name.push_back(static_cast<char>(text_[at_++] & 0x7F));
    if (!take(U":]")) return wrong(":]");
    const CodePointSet letters{{U'A', U'Z'}, {U'a', U'z'}};
    if (name == "alpha") return ClassItem{letters, {}};
    if (name == "digit") return ClassItem{digits(), {}};
    if (name == "alnum") return ClassItem{letters | digits(), {}};
    if (name == "upper") return ClassItem{{{U'A', U'Z'}}, {}};
    if (name == "lower") return ClassItem{{{U'a', U'z'}}, {}};
    if (name == "space") return ClassItem{blanks(), {}};
    if (name == "xdigit") return ClassItem{digits() | CodePointSet{{U'A', U'F'}, {U'a', U'f'}}, {}};
    if (name == "punct") return ClassItem{{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}, {}};
    return wrong(fmt::format("a class of characters, not {}", name));
  }

  Result<Part> read_class() {
    const bool negated = take(U'^');
    std::vector<CodePointSet::Range> ranges;
    const auto add = [&](const CodePointSet& set) {
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    while (!done() && peek() != U']') {
      TRY_ASSIGN(const ClassItem first, read_class_item());
      const bool is_range = peek() == U'-' && at_ + 1 < text_.size() && peek(1) != U']';
      if (!is_range || !first.one) {
        add(first.set);
        continue;
      }
      ++at_;
      TRY_ASSIGN(const ClassItem last, read_class_item());
      if (!last.one) {
        add(first.set);
        add({{U'-', U'-'}});
        add(last.set);
      } else if (*last.one < *first.one) {
        return wrong("a range that ascends");
      } else {
        ranges.push_back({*first.one, *last.one});
      }
    }
    if (!take(U']')) return wrong("]");
    const CodePointSet set(std::move(ranges));
    return plain(pool_.characters(negated ? cased(set).complement() : cased(set)));
  }

  struct Flags {
    bool caseless;
    bool dot_is_any;
  };

  // Behind "(?": true where they are of the group that begins here, false where they are of the
  // rest of the group around, and nothing is in this one.
  Result<bool> read_flags() {
    bool value = true;
    for (; !done(); ++at_) {
      if (take(U':')) return true;
      if (take(U')')) return false;
      switch (peek()) {
        case '-':
          value = false;
          break;
        case 'i':
          flags_.caseless = value;
          break;
        case 's':
          flags_.dot_is_any = value;
          break;
        case 'u':
          break;
        default:
          return unsupported("a group of a kind that is not ECMA-262's");
      }
    }
    return wrong(")");
  }

  RegularPool& pool_;
  std::u32string text_;
  Flags flags_;
  size_t at_ = 0;
};

// What may follow at a place, where that is the text's beginning and where it is not.
struct Rest {
  Regular at_begin;
  Regular later;
};

// Parts from right to left: each gets what follows it, up to the text's end.
class Assembler {
 public:
  explicit Assembler(RegularPool& pool) : pool_(pool) {}

  Result<Rest> before(const Part& part, Rest rest) {
    switch (part.kind) {
      case Part::Kind::kPlain: {
        const Regular later = pool_.sequence(part.plain, rest.later);
        if (rest.at_begin == rest.later) return Rest{later, later};
        // Only where nothing was read is it still the beginning.
        const Regular some =
            pool_.intersection(part.plain, pool_.repeat(pool_.any_character(), 1, kUnbounded));
        Regular at_begin = pool_.sequence(some, rest.later);
        if (pool_.accepts_empty(part.plain)) at_begin = pool_.choice(at_begin, rest.at_begin);
        return Rest{at_begin, later};
      }
      case Part::Kind::kBegin:
        return Rest{rest.at_begin, Regular::kNothing};
      case Part::Kind::kEnd:
        return Rest{only_empty(rest.at_begin), only_empty(rest.later)};
      case Part::Kind::kSequence:
        for (size_t i = part.parts.size(); i-- > 0;) {
          TRY_ASSIGN(rest, before(part.parts[i], rest));
        }
        return rest;
      case Part::Kind::kChoice: {
        std::vector<Regular> begins, laters;
        for (const Part& one : part.parts) {
          TRY_ASSIGN(const Rest its, before(one, rest));
          begins.push_back(its.at_begin);
          laters.push_back(its.later);
        }
        return Rest{pool_.choice(begins), pool_.choice(laters)};
      }
      case Part::Kind::kRepeat:
        return repeated(part, rest);
      case Part::Kind::kLook:
      case Part::Kind::kNotLook: {
        const Regular any = pool_.any_text();
        TRY_ASSIGN(Rest seen, before(part.parts.front(), {any, any}));
        if (part.kind == Part::Kind::kNotLook) {
          seen = {pool_.complement(seen.at_begin), pool_.complement(seen.later)};
        }
        return Rest{pool_.intersection(seen.at_begin, rest.at_begin),
                    pool_.intersection(seen.later, rest.later)};
      }
    }
    return rest;
  }

 private:
  Regular only_empty(Regular r) const {
    return pool_.accepts_empty(r) ? Regular::kEmptyText : Regular::kNothing;
  }

  Result<Rest> repeated(const Part& part, Rest rest) {
    constexpr uint32_t kMaxUnrolled = 16;
    if (part.max > kMaxUnrolled) {
      return fail(ErrorCode::kUnsupported,
                  "the regular expression repeats an anchor or a lookahead, which no automaton "
                  "here can keep to");
    }
    Rest made = rest;
    for (uint32_t i = part.max; i > 0; --i) {
      TRY_ASSIGN(const Rest its, before(part.parts.front(), made));
      made = its;
      if (i <= part.min) continue;
      made = {pool_.choice(made.at_begin, rest.at_begin), pool_.choice(made.later, rest.later)};
    }
    return made;
  }

  RegularPool& pool_;
};

}  // namespace

Result<Regular> parse_pattern(RegularPool& pool, std::string_view pattern,
                              const PatternOptions& options) {
  if (pattern.size() > kMaxBytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the regular expression has {} bytes; expected at most {}",
                            pattern.size(), kMaxBytes));
  }
  TRY_ASSIGN(const Part tree, PatternParser(pool, to_characters(pattern), options).run());
  const bool whole = options.extent == PatternOptions::Extent::kWhole;
  const Regular tail = whole ? Regular::kEmptyText : pool.any_text();
  TRY_ASSIGN(const Rest rest, Assembler(pool).before(tree, {tail, tail}));
  Regular made = rest.at_begin;
  if (!whole && rest.later != Regular::kNothing) {
    const Regular some = pool.repeat(pool.any_character(), 1, kUnbounded);
    made = rest.at_begin == rest.later
               ? pool.sequence(pool.any_text(), rest.later)
               : pool.choice(rest.at_begin, pool.sequence(some, rest.later));
  }
  if (pool.exhausted()) {
    return fail(ErrorCode::kInvalidArgument, "the regular expression is too large to be kept");
  }
  return made;
}

}  // namespace kvik::grammar
