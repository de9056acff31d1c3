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

  // End of the tokens in AttendTask::pages, if the row could read more according to its position:
  // it attends to positions after its token's, or its pages hold copies of selected tokens, of
  // which the last page may be partly filled although an open page follows.
  uint32_t n_tokens = UINT32_MAX;

  // If not null, the row attends only to some tokens of its range: bit t of masks[i] is set for
  // token t of page i. The open page counts as page position / kPageTokens. At least one bit is set
  // for each page of the range.
  const uint32_t* masks = nullptr;

  // Returns the position after the last token that the row reads from AttendTask::pages.
  uint32_t sealed_end() const {
    const uint32_t end = open ? position / kPageTokens * kPageTokens : position + 1;
    return end < n_tokens ? end : n_tokens;
  }
};

}  // namespace kvik
