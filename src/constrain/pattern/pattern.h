#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/regular.h"

namespace kvik::constrain {

struct PatternOptions {
  // kSearch: the texts that contain a match, as in JSON Schema. kWhole: the texts that match as a
  // whole.
  enum class Extent { kSearch, kWhole } extent = Extent::kWhole;
  // The flags i and s. (?i) and (?s:…) have the same effect within an expression.
  enum class Letters { kCased, kCaseless } letters = Letters::kCased;
  enum class Dot { kNoLineEnd, kAny } dot = Dot::kNoLineEnd;
};

// Converts a regular expression (ECMA-262 with flag u, and common syntax of other dialects where it
// has the same meaning) to the set of its texts. Lookahead and anchors are supported. Errors:
// kInvalidArgument; kUnsupported for features that are not regular or depend on earlier text (back
// references, lookbehind, \b). Both name the position.
Result<Regular> parse_pattern(RegularPool& pool, std::string_view pattern,
                              const PatternOptions& options);

}  // namespace kvik::constrain
