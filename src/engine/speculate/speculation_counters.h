#pragma once

#include <array>
#include <cstdint>

namespace kvik {

inline constexpr uint32_t kMaxDraftTokens = 31;  // draft tokens of one sequence in one step

// Counts since the start.
struct SpeculationCounters {
  uint64_t drafts = 0;  // one for each sequence and step
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  std::array<uint64_t, kMaxDraftTokens> accepted_at{};  // by position in the draft
};

}  // namespace kvik
