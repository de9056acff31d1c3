#pragma once

#include <string_view>

#include "base/result.h"
#include "constrain/regular.h"

namespace kvik::constrain {

struct PatternOptions {
  // Texts that contain a match, as in JSON Schema, or those that match as a whole.
  enum class Extent { kSearch, kWhole } extent = Extent::kWhole;
  // The flags i and s; (?i) and (?s:…) have the same meaning within an expression.
  enum class Letters { kCased, kCaseless } letters = Letters::kCased;
  enum class Dot { kNoLineEnd, kAny } dot = Dot::kNoLineEnd;
};

// Parses a regular expression (ECMA-262 with flag u, and common syntax of others with the same
// meaning) to a set of texts. Lookahead and anchors are supported; features that are not regular or
// depend on earlier text (back references, lookbehind, \b) are kUnsupported, with the position.
Result<Regular> parse_pattern(RegularPool& pool, std::string_view pattern,
                              const PatternOptions& options);

}  // namespace kvik::constrain
