#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kv_type.h"

namespace kvik {

// Tokens whose scores share one maximum: split s begins at position s · kSplitTokens.
inline constexpr uint32_t kSplitTokens = 512;

// Splits [begin, end).
struct SplitRange {
  uint32_t begin, end;
};

// A row of q and out with the position of its token.
struct QueryRow {
  const float* q;
  float* out;
  uint32_t position;
  // Open page of that token in kOpenType, if the row reads it; null: it reads all tokens where they
  // are stored.
  const std::byte* open = nullptr;

  // Returns the end of the tokens that the row reads from AttendTask::pages.
  uint32_t sealed_end() const { return open ? position / kPageTokens * kPageTokens : position + 1; }
};

}  // namespace kvik
