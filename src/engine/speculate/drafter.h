#pragma once

#include <cstdint>
#include <span>

#include "engine/speculate/guess.h"

namespace kvik {

struct Sequence;

// Guesses what comes next in a sequence. Engine thread only.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // The sequences that propose() will be asked about in this step, and how many tokens of each.
  virtual void begin_step(std::span<Sequence* const> sequences, uint32_t n_most) {
    static_cast<void>(sequences);
    static_cast<void>(n_most);
  }
  // Puts the tokens that may stand behind all that the sequence has into `draft`, which is empty:
  // n_most at most, and none where there is nothing to go by.
  virtual void propose(Sequence& sequence, uint32_t n_most, Draft& draft) = 0;
  // The sequence is about to give its pages back.
  virtual void let_go(Sequence& sequence) { static_cast<void>(sequence); }
  // What begin_step() takes for each token, where that is worth counting.
  virtual double token_ms() const { return 0; }
};

}  // namespace kvik
