#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/regular.h"

namespace kvik::constrain {

struct PatternOptions {
  // The texts that hold a match somewhere, as JSON Schema means it, or those that are one match.
  enum class Extent { kSearch, kWhole } extent = Extent::kWhole;
  // The flags i and s; (?i) and (?s:…) say the same within an expression.
  enum class Letters { kCased, kCaseless } letters = Letters::kCased;
  enum class Dot { kNoLineEnd, kAny } dot = Dot::kNoLineEnd;
};

// A regular expression (ECMA-262 with the flag u, which has what others mean by the same signs) as
// a set of texts. Lookahead and anchors are kept; what is not regular or hangs on what lies before
// (back references, lookbehind, \b) is refused, as kUnsupported, with the place.
Result<Regular> parse_pattern(RegularPool& pool, std::string_view pattern,
                              const PatternOptions& options);

}  // namespace kvik::constrain
