#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "constrain/pattern/pattern.h"
#include "constrain/regular.h"

namespace kvik::constrain {

// The tree of a regular expression. Plain parts are expressions already; others depend on their
// context.
struct PatternPart {
  enum class Kind : uint8_t { kPlain, kBegin, kEnd, kSequence, kChoice, kRepeat, kLook, kNotLook };
  Kind kind = Kind::kPlain;
  Regular plain = Regular::kEmptyText;
  std::vector<PatternPart> parts = {};
  uint32_t min = 0, max = 0;
};

// Parses a text to a tree. Errors as for parse_pattern().
Result<PatternPart> read_parts(RegularPool& pool, std::u32string text,
                               const PatternOptions& options);

}  // namespace kvik::constrain
