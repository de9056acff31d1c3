#include "constrain/pattern/pattern_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "constrain/pattern/character_class.h"
#include "constrain/pattern/pattern_cursor.h"
#include "constrain/unicode_class.h"

namespace kvik::constrain {
namespace {

using Part = PatternPart;

constexpr uint32_t kUnbounded = RegularPool::kUnbounded;
constexpr int kMaxDepth = 200;
constexpr uint32_t kMaxRepeat = 100'000;

class PartReader {
 public:
  PartReader(RegularPool& pool, std::u32string text, const PatternOptions& options)
      : pool_(pool),
        in_(std::move(text)),
        flags_{options.letters == PatternOptions::Letters::kCaseless,
               options.dot == PatternOptions::Dot::kAny} {}

  Result<Part> run() {
    TRY_ASSIGN(Part part, read_choice(0));
    if (!in_.done()) return in_.wrong("an expression, not )");
    return part;
  }

 private:
  Part plain(Regular r) const { return {Part::Kind::kPlain, r}; }
  CodePointSet cased(const CodePointSet& set) const {
    return flags_.caseless ? close_over_case(set) : set;
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
    } while (in_.take(U'|'));
    if (made.parts.size() == 1) return std::move(made.parts.front());
    const auto is_plain = [](const Part& p) { return p.kind == Part::Kind::kPlain; };
    if (!std::ranges::all_of(made.parts, is_plain)) return made;
    std::vector<Regular> all;
    for (const Part& part : made.parts) all.push_back(part.plain);
    return plain(pool_.choice(all));
  }

  Result<Part> read_sequence(int depth) {
    Part made{Part::Kind::kSequence};
    std::vector<Regular> run;  // consecutive plain parts, to be merged
    const auto end_run = [&] {
      if (!run.empty()) made.parts.push_back(plain(pool_.sequence(run)));
      run.clear();
    };
    while (!in_.done() && in_.peek() != U'|' && in_.peek() != U')') {
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
    while (!in_.done()) {
      uint32_t min = 0, max = kUnbounded;
      if (in_.take(U'+')) {
        min = 1;
      } else if (in_.take(U'?')) {
        max = 1;
      } else if (in_.peek() == U'{' && is_bounds()) {
        TRY(read_bounds(min, max));
      } else if (!in_.take(U'*')) {
        return part;
      }
      if (!in_.take(U'?') && in_.peek() == U'+') return in_.unsupported("a possessive repeat");
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

  // Returns whether a brace begins the bounds of a repetition. Otherwise it is a literal, as in all
  // engines that are not strict.
  bool is_bounds() const {
    size_t i = 1;
    const auto skip_digits = [&] {
      const size_t begin = i;
      while (in_.peek(i) >= '0' && in_.peek(i) <= '9') ++i;
      return i > begin;
    };
    const bool has_min = skip_digits();
    if (in_.peek(i) == ',') {
      ++i;
      skip_digits();
    }
    return has_min && in_.peek(i) == '}';
  }

  uint32_t read_number() {
    uint64_t number = 0;
    while (in_.peek() >= '0' && in_.peek() <= '9') {
      number = std::min<uint64_t>(number * 10 + (in_.next() - '0'), UINT32_MAX);
    }
    return static_cast<uint32_t>(number);
  }

  Result<void> read_bounds(uint32_t& min, uint32_t& max) {
    in_.take(U'{');
    min = max = read_number();
    if (in_.take(U',')) max = in_.peek() == U'}' ? kUnbounded : read_number();
    in_.take(U'}');
    if (min > kMaxRepeat || (max > kMaxRepeat && max != kUnbounded)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the regular expression repeats up to {} times; expected at most {}",
                              max == kUnbounded ? min : max, kMaxRepeat));
    }
    if (max < min) return in_.wrong("bounds that ascend");
    return {};
  }

  Result<Part> read_one(int depth) {
    if (in_.take(U'(')) return read_group(depth);
    if (in_.take(U'[')) {
      TRY_ASSIGN(const CharacterClass read, read_class(in_));
      const CodePointSet set = cased(read.set);
      return plain(pool_.characters(read.is_negated ? set.complement() : set));
    }
    if (in_.take(U'\\')) return read_escape();
    if (in_.take(U'.')) {
      return plain(flags_.dot_is_any ? pool_.any_character()
                                     : pool_.characters(line_ends().complement()));
    }
    if (in_.take(U'^')) return Part{Part::Kind::kBegin};
    if (in_.take(U'$')) return Part{Part::Kind::kEnd};
    const char32_t c = in_.peek();
    if (c == U'*' || c == U'+' || c == U'?') return in_.wrong("something to repeat");
    in_.next();
    return characters({{c, c}});
  }

  Result<Part> read_group(int depth) {
    const Flags flags_around = flags_;
    auto kind = Part::Kind::kPlain;
    if (in_.take(U"?:")) {
    } else if (in_.take(U"?=")) {
      kind = Part::Kind::kLook;
    } else if (in_.take(U"?!")) {
      kind = Part::Kind::kNotLook;
    } else if (in_.take(U"?<=") || in_.take(U"?<!")) {
      return in_.unsupported("lookbehind");
    } else if (in_.take(U"?<") || in_.take(U"?P<")) {
      while (!in_.done() && in_.peek() != U'>') in_.next();
      if (!in_.take(U'>')) return in_.wrong(">");
    } else if (in_.take(U'?')) {
      TRY_ASSIGN(const bool is_group, read_flags());
      if (!is_group) return plain(Regular::kEmptyText);
    }
    TRY_ASSIGN(Part inner, read_choice(depth + 1));
    if (!in_.take(U')')) return in_.wrong(")");
    flags_ = flags_around;
    if (kind == Part::Kind::kPlain) return inner;
    Part look{kind};
    look.parts.push_back(std::move(inner));
    return look;
  }

  Result<Part> read_escape() {
    if (in_.done()) return in_.wrong("a character after the backslash");
    TRY_ASSIGN(const std::optional<CodePointSet> set, read_set_escape(in_));
    if (set) return characters(*set);
    if (in_.take(U'A')) return Part{Part::Kind::kBegin};
    if (in_.take(U'z') || in_.take(U'Z')) return Part{Part::Kind::kEnd};
    if (in_.peek() == U'k') return in_.unsupported("a back reference");
    TRY_ASSIGN(const char32_t c, read_character_escape(in_, EscapePlace::kText));
    return characters({{c, c}});
  }

  struct Flags {
    bool caseless;
    bool dot_is_any;
  };

  // Reads the flags after "(?". Returns true if they apply to the group that begins here, false if
  // they apply to the rest of the enclosing group.
  Result<bool> read_flags() {
    bool value = true;
    for (; !in_.done(); in_.next()) {
      if (in_.take(U':')) return true;
      if (in_.take(U')')) return false;
      switch (in_.peek()) {
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
          return in_.unsupported("a group of a kind that is not ECMA-262's");
      }
    }
    return in_.wrong(")");
  }

  RegularPool& pool_;
  PatternCursor in_;
  Flags flags_;
};

}  // namespace

Result<PatternPart> read_parts(RegularPool& pool, std::u32string text,
                               const PatternOptions& options) {
  return PartReader(pool, std::move(text), options).run();
}

}  // namespace kvik::constrain
