#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "constrain/code_points.h"
#include "constrain/pattern/pattern_cursor.h"

// Character sets in regular expressions: \d, \p{L}, [a-z], and single escapes.
namespace kvik::constrain {

CodePointSet line_ends();

// Reads \d, \p{…} and similar after a backslash; reads nothing if there is none.
Result<std::optional<CodePointSet>> read_set_escape(PatternCursor& in);

// Reads an escape of a single character after a backslash. \b is one only within a class.
enum class EscapePlace : uint8_t { kText, kClass };
Result<char32_t> read_character_escape(PatternCursor& in, EscapePlace place);

// Reads a class from after its opening bracket to the closing one. Negation is applied after case
// folding.
struct CharacterClass {
  CodePointSet set;
  bool is_negated;
};
Result<CharacterClass> read_class(PatternCursor& in);

}  // namespace kvik::constrain
