#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// Bits of tokens: bit i % 64 of word i / 64 is token i's.
inline constexpr uint32_t kMaskBits = 64;
inline constexpr size_t mask_words(uint32_t n_vocab) {
  return (size_t{n_vocab} + kMaskBits - 1) / kMaskBits;
}

// So many of its newest tokens a constraint can take back.
inline constexpr uint32_t kMaxRollBack = 64;

// Which tokens an answer may hold, and where it may end. The engine asks it for each row that it
// samples and knows neither text nor form. What it says depends on the tokens so far and on nothing
// else, so the answer's bits do not depend on who asks when.
//
// One is held with each sequence, preempted or not, and used by one thread at a time.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // The same tokens so far, on its own from here: of n choices each has one.
  virtual std::unique_ptr<Constraint> fork() const = 0;

  // Sets the bits of the tokens that may come next and clears all others. mask: [mask_words()].
  virtual void fill_mask(std::span<uint64_t> mask) = 0;
  // That token's bit, for less than the whole mask costs.
  virtual bool allows(TokenId token) = 0;

  // Takes a token that is allowed.
  virtual void advance(TokenId token) = 0;
  // Takes back the newest n tokens, kMaxRollBack at most.
  virtual void roll_back(uint32_t n) = 0;

  // Whether the answer may end with the tokens so far, or must: nothing more could come.
  enum class End : uint8_t { kNotYet, kMay, kMust };
  virtual End end() = 0;

  // Appends the tokens that come next whatever the model says, n_max at most: fill_mask() leaves
  // each of them alone in its place. A drafter that is always right.
  virtual void forced(uint32_t n_max, std::vector<TokenId>& tokens) = 0;
};

}  // namespace kvik
