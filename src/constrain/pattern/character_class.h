#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "constrain/code_points.h"
#include "constrain/pattern/pattern_cursor.h"

// Sets of characters as regular expressions write them: \d, \p{L}, [a-z], and single escapes.
namespace kvik::constrain {

CodePointSet line_ends();

// Behind a backslash: \d, \p{…} and their like; nothing is read where none is there.
Result<std::optional<CodePointSet>> read_set_escape(PatternCursor& in);

// Behind a backslash, of one character. \b is one within a class alone.
enum class EscapePlace : uint8_t { kText, kClass };
Result<char32_t> read_character_escape(PatternCursor& in, EscapePlace place);

// Behind the bracket, up to the one that closes. Negation comes behind the choice of cases.
struct CharacterClass {
  CodePointSet set;
  bool is_negated;
};
Result<CharacterClass> read_class(PatternCursor& in);

}  // namespace kvik::constrain
