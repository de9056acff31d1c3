// Any bytes as a grammar in Lark's dialect, with schemas within: it becomes a grammar, whose masks
// agree with what it accepts, or it is said why not, within its limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "constrain/front/lark.h"
#include "fuzz/walk_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik::constrain;
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  auto grammar = parse_lark(text, {.limits = small_limits(), .whitespace = {}});
  if (grammar) walk(std::move(*grammar), static_cast<uint32_t>(n_bytes));
  return 0;
}
