#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// The source of a draft token.
enum class DraftSource : uint8_t {
  kSuffix,  // tokens after the longest earlier suffix in prompt and answer
  kResume,  // tokens near the position where a copy was left recently
  kChain,   // the same as kSuffix in pages of the cache that the request may read
  kModel,   // a draft model or MTP head
  kForced,  // tokens forced by a constraint
};
inline constexpr size_t kDraftSources = 5;

// A class of draft tokens with about equal acceptance: a source and a level of confidence, from 0
// on. For sources that match tokens, the level grows by one each time the number of matched tokens
// doubles.
struct DraftKind {
  static constexpr uint8_t kLevels = 8;
  DraftSource source = DraftSource::kSuffix;
  uint8_t level = 0;

  static DraftKind of_match(DraftSource source, uint32_t n_matched) {
    const auto doublings = static_cast<uint32_t>(std::bit_width(n_matched));
    return {source, static_cast<uint8_t>(std::min<uint32_t>(doublings, kLevels - 1))};
  }
};

// A draft token and its kind.
struct DraftToken {
  TokenId token = 0;
  DraftKind kind;
};

// Consecutive draft tokens.
using Draft = std::vector<DraftToken>;

// The acceptance rate of each kind of draft token in one request, as a moving average that starts
// at the usual rate.
class Acceptance {
 public:
  Acceptance();

  // Returns the probability that such a token is accepted, given that all tokens before it are.
  float chance(DraftKind kind) const { return shares_[index(kind)]; }
  void learn(DraftKind kind, bool was_accepted) {
    float& share = shares_[index(kind)];
    share += kRate * ((was_accepted ? 1.0f : 0.0f) - share);
  }

 private:
  static constexpr float kRate = 0.1f;
  static size_t index(DraftKind kind) {
    return static_cast<size_t>(kind.source) * DraftKind::kLevels + kind.level;
  }
  std::array<float, kDraftSources * DraftKind::kLevels> shares_;
};

}  // namespace kvik
