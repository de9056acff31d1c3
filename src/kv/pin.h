#pragma once

#include <cstdint>

#include "base/clock.h"

namespace kvik {

// Keeps the pages of a sequence's first n_tokens for `ttl` after their last use: they are evicted
// only after all pages that are not pinned.
struct Pin {
  uint32_t n_tokens = 0;
  Duration ttl{};
};

}  // namespace kvik
