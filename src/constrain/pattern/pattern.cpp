#include "constrain/pattern/pattern.h"

#include <fmt/format.h>

#include <vector>

#include "constrain/code_points.h"
#include "constrain/pattern/pattern_part.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 18;

// The expression that may follow at a position if nothing was read before it, and otherwise. Only ^
// distinguishes the two.
struct Rest {
  Regular at_begin;
  Regular later;
};

// Builds the expression from right to left: before() receives what may follow a part, up to the end
// of the text, and returns what may follow at the beginning of the part.
class Assembler {
 public:
  explicit Assembler(RegularPool& pool) : pool_(pool) {}

  Result<Rest> before(const PatternPart& part, Rest rest) {
    switch (part.kind) {
      case PatternPart::Kind::kPlain: {
        const Regular later = pool_.sequence(part.plain, rest.later);
        if (rest.at_begin == rest.later) return Rest{later, later};
        // The position after the part is the beginning of the text only if the part read nothing.
        const Regular some = pool_.intersection(
            part.plain, pool_.repeat(pool_.any_character(), 1, RegularPool::kUnbounded));
        Regular at_begin = pool_.sequence(some, rest.later);
        if (pool_.accepts_empty(part.plain)) at_begin = pool_.choice(at_begin, rest.at_begin);
        return Rest{at_begin, later};
      }
      case PatternPart::Kind::kBegin:
        return Rest{rest.at_begin, Regular::kNothing};
      case PatternPart::Kind::kEnd:
        return Rest{only_empty(rest.at_begin), only_empty(rest.later)};
      case PatternPart::Kind::kSequence:
        for (size_t i = part.parts.size(); i-- > 0;) {
          TRY_ASSIGN(rest, before(part.parts[i], rest));
        }
        return rest;
      case PatternPart::Kind::kChoice: {
        std::vector<Regular> begins, later_parts;
        for (const PatternPart& one : part.parts) {
          TRY_ASSIGN(const Rest branch, before(one, rest));
          begins.push_back(branch.at_begin);
          later_parts.push_back(branch.later);
        }
        return Rest{pool_.choice(begins), pool_.choice(later_parts)};
      }
      case PatternPart::Kind::kRepeat:
        return repeated(part, rest);
      case PatternPart::Kind::kLook:
      case PatternPart::Kind::kNotLook: {
        const Regular any = pool_.any_text();
        TRY_ASSIGN(Rest seen, before(part.parts.front(), {any, any}));
        if (part.kind == PatternPart::Kind::kNotLook) {
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

  Result<Rest> repeated(const PatternPart& part, Rest rest) {
    constexpr uint32_t kMaxUnrolled = 16;
    if (part.max > kMaxUnrolled) {
      return fail(
          ErrorCode::kUnsupported,
          "the regular expression repeats an anchor or a lookahead, which is not supported");
    }
    Rest made = rest;
    for (uint32_t i = part.max; i > 0; --i) {
      TRY_ASSIGN(const Rest once, before(part.parts.front(), made));
      made = once;
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
  TRY_ASSIGN(const PatternPart tree, read_parts(pool, to_characters(pattern), options));
  const bool whole = options.extent == PatternOptions::Extent::kWhole;
  const Regular tail = whole ? Regular::kEmptyText : pool.any_text();
  TRY_ASSIGN(const Rest rest, Assembler(pool).before(tree, {tail, tail}));
  Regular made = rest.at_begin;
  if (!whole && rest.later != Regular::kNothing) {
    const Regular some = pool.repeat(pool.any_character(), 1, RegularPool::kUnbounded);
    made = rest.at_begin == rest.later
               ? pool.sequence(pool.any_text(), rest.later)
               : pool.choice(rest.at_begin, pool.sequence(some, rest.later));
  }
  if (pool.exhausted()) {
    return fail(ErrorCode::kInvalidArgument, "the regular expression is too large");
  }
  return made;
}

}  // namespace kvik::constrain
