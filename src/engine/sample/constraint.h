#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/token_bitmask.h"

namespace kvik {

// Number of its newest tokens that a constraint can take back.
inline constexpr uint32_t kMaxRollBack = 64;

// Which tokens an answer may hold, and where it may end. The engine asks it for each token that it
// samples and knows neither text nor grammar. What it says depends on the tokens so far and on
// nothing else, so the bits of an answer do not depend on which thread asks when.
//
// One is held with each sequence, preempted or not, and used by one thread at a time.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Returns a constraint with the same tokens so far, which continues on its own: each of n choices
  // has one.
  virtual std::unique_ptr<Constraint> fork() const = 0;

  // Allows the tokens that may come next, and no others. mask: of the model's vocabulary.
  virtual void fill_mask(TokenBitmask& mask) = 0;
  // Returns that token's bit, for less than the whole mask costs.
  virtual bool allows(TokenId token) = 0;

  // Takes a token that is allowed.
  virtual void advance(TokenId token) = 0;
  // Takes back the newest n tokens, kMaxRollBack at most.
  virtual void roll_back(uint32_t n) = 0;

  // Whether the answer may end with the tokens so far, or must: nothing more could come.
  enum class End : uint8_t { kNotYet, kMay, kMust };
  virtual End end() = 0;

  // Appends the tokens that come next whatever the model says, n_max at most: fill_mask() leaves
  // each of them alone in its position. A drafter that is always right.
  virtual void forced(uint32_t n_max, std::vector<TokenId>& tokens) = 0;

  // The same in two steps, as the engine has them done: how the answer continues after `token`
  // (none: at its beginning), then the mask of the next token. kSmall limits a step to about a
  // millisecond; beyond that it is kUnfinished, has changed nothing, and is repeated with kFull.
  enum class Effort : uint8_t { kSmall, kFull };
  // kExhausted: the grammar takes more work or memory than its limits allow, and the answer ends.
  enum class Outcome : uint8_t { kDone, kUnfinished, kExhausted };
  struct Next {
    End end = End::kNotYet;
    std::vector<TokenId> forced;  // n_max of them at most
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
