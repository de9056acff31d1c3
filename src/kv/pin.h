#pragma once

#include <cstdint>

#include "base/clock.h"

namespace kvik {

// The pages of a sequence's first n_tokens are given up after all that are not pinned, for as long
// as `ttl` from their last use. They do go where nothing else is left.
struct Pin {
  uint32_t n_tokens = 0;
  Duration ttl{};
};

}  // namespace kvik
