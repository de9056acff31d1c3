// Parses any bytes as a regular expression: either its masks agree with the texts that it accepts,
// or the error names the reason, within the limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "constrain/front/plain_forms.h"
#include "fuzz/walk_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik::constrain;
  const std::string_view text(reinterpret_cast<const char*>(data), n_bytes);
  auto grammar = regex_grammar(text, small_limits());
  if (grammar) walk(std::move(*grammar), static_cast<uint32_t>(n_bytes));
  return 0;
}
