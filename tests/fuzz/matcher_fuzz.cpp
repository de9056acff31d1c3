// Interleaved matchers of a random grammar, some of which meet its limits: each must give the same
// answers as it does alone. The first bytes are the seed, the fifth is the number of matchers;
// further bytes are a grammar in llama.cpp's dialect.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "support/interleaved_matchers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  using namespace kvik::constrain;
  if (n_bytes < 5) return 0;
  uint32_t seed = 0;
  std::memcpy(&seed, data, sizeof(seed));
  const uint32_t n_matchers = 1 + data[4] % 4;
  if (n_bytes == 5) {
    try_interleaved({.seed = seed, .n_matchers = n_matchers});
    return 0;
  }
  std::mt19937 random(seed);
  const std::string_view text(reinterpret_cast<const char*>(data) + 5, n_bytes - 5);
  const auto grammar = parse_gbnf(text, random_limits(random));
  if (grammar)
    try_interleaved(*grammar, {.seed = seed, .n_matchers = n_matchers, .n_steps = 8}, random);
  return 0;
}
