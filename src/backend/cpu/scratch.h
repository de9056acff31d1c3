#pragma once

#include <cstddef>

#include "backend/memory.h"

namespace kvik::cpu {

// Number of floats below which the calling thread is faster than waking up the others.
inline constexpr size_t kFloatsWorthSharing = size_t{1} << 14;

// Makes a scratch buffer at least this large. Its content is lost then.
inline void grow(Buffer& buffer, size_t n_bytes, Memory& memory) {
  if (buffer.size() >= n_bytes) return;
  buffer = Buffer();
  buffer = memory.allocate(n_bytes);
}

}  // namespace kvik::cpu
