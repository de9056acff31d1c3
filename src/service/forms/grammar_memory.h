#pragma once

#include <cstddef>

namespace kvik {

// Memory of grammars, in bytes.
struct GrammarMemory {
  size_t compiled_bytes = 0;  // of compiled grammars, kept or in use
  size_t matching_bytes = 0;  // of what the answers in progress have learned about theirs
  size_t max_compiled_bytes = 0;
};

}  // namespace kvik
