#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "constrain/code_points.h"

namespace kvik::constrain {

// Reads characters byte by byte, as UTF-8 or as escapes in a JSON string. The state of a partly
// read character is one word (`partial`), which is zero between characters.
struct CharacterCursor {
  enum class Kind : uint8_t { kInvalid, kInside, kCharacter, kQuote };
  struct Step {
    Kind kind;
    uint32_t partial = 0;     // only for kInside
    char32_t code_point = 0;  // only for kCharacter
  };

  static Step step_plain(uint32_t partial, uint8_t byte);
  // Reads a byte within a JSON string. The result is kQuote at the end of the string.
  static Step step_string(uint32_t partial, uint8_t byte);

  // Returns the characters that a partly read character may become, in up to two ranges. In an
  // empty range `last` is less than `first`.
  using Ranges = std::array<CodePointSet::Range, 2>;
  static Ranges may_become(uint32_t partial);

  static bool is_escape(uint32_t partial);
};

}  // namespace kvik::constrain
