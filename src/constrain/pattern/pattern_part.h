#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "constrain/pattern/pattern.h"
#include "constrain/regular.h"

namespace kvik::constrain {

// A regular expression's tree. Plain parts are expressions already; what else there is hangs on
// what stands around it.
struct PatternPart {
  enum class Kind : uint8_t { kPlain, kBegin, kEnd, kSequence, kChoice, kRepeat, kLook, kNotLook };
  Kind kind = Kind::kPlain;
  Regular plain = Regular::kEmptyText;
  std::vector<PatternPart> parts = {};
  uint32_t min = 0, max = 0;
};

// The tree of a text; kInvalidArgument and kUnsupported as parse_pattern() has them.
Result<PatternPart> read_parts(RegularPool& pool, std::u32string text,
                               const PatternOptions& options);

}  // namespace kvik::constrain
