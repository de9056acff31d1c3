#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "constrain/code_points.h"

namespace kvik::constrain {

// Partially read character: of its UTF-8, or of its escape in a JSON string. A word, zero between
// characters.
struct CharacterCursor {
  enum class Kind : uint8_t { kInvalid, kInside, kCharacter, kQuote };
  struct Step {
    Kind kind;
    uint32_t partial = 0;     // for kInside
    char32_t code_point = 0;  // for kCharacter
  };

  static Step step_plain(uint32_t partial, uint8_t byte);
  // kQuote: the end of the string.
  static Step step_string(uint32_t partial, uint8_t byte);

  // Returns the characters that it may become, in up to two ranges; an empty range has its last
  // below its first.
  using Ranges = std::array<CodePointSet::Range, 2>;
  static Ranges may_become(uint32_t partial);

  static bool is_escape(uint32_t partial);
};

}  // namespace kvik::constrain
