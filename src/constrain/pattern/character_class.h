#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "constrain/code_points.h"
#include "constrain/pattern/pattern_cursor.h"

// Character sets in regular expressions: \d, \p{L}, [a-z], and single escapes.
namespace kvik::constrain {

CodePointSet line_ends();

// Reads \d, \p{…} and similar escapes, after the backslash. If there is none, reads nothing and
// returns std::nullopt.
Result<std::optional<CodePointSet>> read_set_escape(PatternCursor& in);

// Reads an escape of a single character, after the backslash. \b is a backspace in a class and is
// not allowed elsewhere.
enum class EscapePlace : uint8_t { kText, kClass };
Result<char32_t> read_character_escape(PatternCursor& in, EscapePlace place);

// A character class. Negation must be applied after case folding. read_class() reads it from after
// the opening bracket to the closing one.
struct CharacterClass {
  CodePointSet set;
  bool is_negated;
};
Result<CharacterClass> read_class(PatternCursor& in);

}  // namespace kvik::constrain
