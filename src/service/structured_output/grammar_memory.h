#pragma once

#include <cstddef>

namespace kvik {

// Memory used by grammars, in bytes.
struct GrammarMemory {
  size_t compiled_bytes = 0;  // compiled grammars, cached or in use
  size_t matching_bytes = 0;  // matcher states of the answers in progress
  size_t max_compiled_bytes = 0;
};

}  // namespace kvik
