#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kv_type.h"

namespace kvik {

// Tokens of a split, in which scores share one maximum. Split s begins at position s ·
// kSplitTokens.
inline constexpr uint32_t kSplitTokens = 512;

// The splits [begin, end).
struct SplitRange {
  uint32_t begin, end;
};

// One row of q and out, and the position of its token.
struct QueryRow {
  const float* q;
  float* out;
  uint32_t position;
  // Open page of the row's token, in kOpenType; null if the row reads all tokens from
  // AttendTask::pages.
  const std::byte* open = nullptr;

  // End of the sequence, if the row attends to positions after its token's. `position` is then the
  // last position in its reach, which may lie after the end.
  uint32_t n_tokens = UINT32_MAX;

  // Returns the position after the last token that the row reads from AttendTask::pages.
  uint32_t sealed_end() const {
    if (open) return position / kPageTokens * kPageTokens;
    return position < n_tokens ? position + 1 : n_tokens;
  }
};

}  // namespace kvik
