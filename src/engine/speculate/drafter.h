#pragma once

#include <cstdint>
#include <span>

#include "engine/speculate/draft_token.h"

namespace kvik {

struct Sequence;

// Proposes draft tokens for a sequence. Engine thread only.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Announces the sequences for which propose() will be called in this step, and the number of
  // draft tokens for each.
  virtual void begin_step(std::span<Sequence* const> sequences, uint32_t n_max) {
    static_cast<void>(sequences);
    static_cast<void>(n_max);
  }
  // Appends at most n_max draft tokens that may follow the sequence to `draft`, which is empty.
  // Appends none if there is nothing to base them on.
  virtual void propose(Sequence& sequence, uint32_t n_max, Draft& draft) = 0;
  // Called before the sequence releases its pages.
  virtual void release(Sequence& sequence) { static_cast<void>(sequence); }
  // Returns the time of begin_step() per draft token of all sequences, or 0 if it is negligible.
  virtual double token_ms() const { return 0; }
};

}  // namespace kvik
