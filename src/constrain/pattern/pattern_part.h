#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "constrain/pattern/pattern.h"
#include "constrain/regular.h"

namespace kvik::constrain {

// The syntax tree of a regular expression. A plain part does not depend on its context, so it is a
// Regular already.
struct PatternPart {
  enum class Kind : uint8_t { kPlain, kBegin, kEnd, kSequence, kChoice, kRepeat, kLook, kNotLook };
  Kind kind = Kind::kPlain;
  Regular plain = Regular::kEmptyText;
  std::vector<PatternPart> parts = {};
  uint32_t min = 0, max = 0;
};

// Parses a regular expression to a tree. Returns the errors of parse_pattern().
Result<PatternPart> read_parts(RegularPool& pool, std::u32string text,
                               const PatternOptions& options);

}  // namespace kvik::constrain
