#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// Where a guess of the next token comes from.
enum class GuessSource : uint8_t {
  kSuffix,  // what stood behind the longest suffix seen before, in prompt and answer
  kResume,  // where a copy was left a moment ago
  kChain,   // the same in what others computed, as far as this request may find it
  kModel,   // a draft model
  kForced,  // what a constraint leaves no choice about
};
inline constexpr size_t kGuessSources = 5;

// A kind of guesses that come true about equally often: a source and how sure it is, from 0 on. Of
// sources that match: by how many tokens match, doubling from level to level.
struct GuessKind {
  static constexpr uint8_t kLevels = 8;
  GuessSource source = GuessSource::kSuffix;
  uint8_t level = 0;

  static GuessKind of_match(GuessSource source, uint32_t n_matched) {
    const auto doublings = static_cast<uint32_t>(std::bit_width(n_matched));
    return {source, static_cast<uint8_t>(std::min<uint32_t>(doublings, kLevels - 1))};
  }
};

// The token that may come next, and what kind of guess it is.
struct Guess {
  TokenId token = 0;
  GuessKind kind;
};

// Tokens that may come next, each behind those before it.
using Draft = std::vector<Guess>;

// How often guesses of each kind came true for one request, faded; before the first one what is
// usual counts as some of them.
class Acceptance {
 public:
  Acceptance();

  // The share of such guesses that come true where all before them did.
  float chance(GuessKind kind) const { return shares_[index(kind)]; }
  void learn(GuessKind kind, bool came_true) {
    float& share = shares_[index(kind)];
    share += kRate * ((came_true ? 1.0f : 0.0f) - share);
  }

 private:
  static constexpr float kRate = 0.1f;
  static size_t index(GuessKind kind) {
    return static_cast<size_t>(kind.source) * GuessKind::kLevels + kind.level;
  }
  std::array<float, kGuessSources * GuessKind::kLevels> shares_;
};

}  // namespace kvik
