#pragma once

#include <cstdint>

#include "tensor/kv_type.h"

namespace kvik {

// Returns the number of pages that n_tokens take in one layer group.
constexpr uint64_t pages_for(uint64_t n_tokens) {
  return (n_tokens + kPageTokens - 1) / kPageTokens;
}

}  // namespace kvik
