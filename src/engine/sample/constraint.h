#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/token_bitmask.h"

namespace kvik {

// Largest number of tokens that a constraint can roll back.
inline constexpr uint32_t kMaxRollBack = 64;

// Decides which tokens an answer may contain and where it may end. The engine queries it for each
// token that it samples and knows neither text nor grammar. Its results depend only on the tokens
// so far, so the bits of an answer do not depend on which thread calls it, or when.
//
// Each sequence owns one, preempted or not. Used by one thread at a time.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Returns an independent copy in the same state: each of n choices has one.
  virtual std::unique_ptr<Constraint> fork() const = 0;

  // Sets the bits of the tokens that may come next, and clears all others. The mask has the model's
  // vocabulary.
  virtual void fill_mask(TokenBitmask& mask) = 0;
  // Returns the token's bit, at less cost than the whole mask.
  virtual bool allows(TokenId token) = 0;

  // Appends a token, which must be allowed.
  virtual void advance(TokenId token) = 0;
  // Removes the newest n tokens, at most kMaxRollBack.
  virtual void roll_back(uint32_t n) = 0;

  // Permission to end the answer after the tokens so far. kMust: nothing can follow.
  enum class End : uint8_t { kNotYet, kMay, kMust };
  virtual End end() = 0;

  // Appends the only possible next tokens, at most n_max: fill_mask() would allow each of them
  // alone at its position. They serve as draft tokens that are always accepted.
  virtual void forced(uint32_t n_max, std::vector<TokenId>& tokens) = 0;

  // try_advance() and try_mask() do the same in two parts. The first appends `token` (none: at the
  // beginning of the answer) and finds how the answer continues; the second makes the mask of the
  // next token. kSmall limits a part to about a millisecond. If that is not enough, the part
  // returns kUnfinished, has changed nothing, and is called again with kFull.
  enum class Effort : uint8_t { kSmall, kFull };
  // kExhausted: the grammar exceeds its limits of work or memory, and the answer ends.
  enum class Outcome : uint8_t { kDone, kUnfinished, kExhausted };
  struct Next {
    End end = End::kNotYet;
    std::vector<TokenId> forced;  // at most n_max
    bool is_free = false;         // anything may follow: the constraint is no longer needed
  };
  virtual Outcome try_advance(Effort effort, std::optional<TokenId> token, Next& next,
                              uint32_t n_max) {
    static_cast<void>(effort);
    next.forced.clear();
    if (token) advance(*token);
    next.end = end();
    forced(n_max, next.forced);
    return Outcome::kDone;
  }
  virtual Outcome try_mask(Effort effort, TokenBitmask& mask) {
    static_cast<void>(effort);
    fill_mask(mask);
    return Outcome::kDone;
  }
};

}  // namespace kvik
