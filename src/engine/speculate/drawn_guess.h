#pragma once

#include <optional>
#include <span>

#include "engine/sample/sampler.h"
#include "engine/speculate/guess.h"

namespace kvik {

struct Sequence;

// What a model that drafts says behind a sequence and the guesses of `draft`.
struct DrawnGuess {
  Guess guess;           // of GuessSource::kModel
  bool is_sure = false;  // enough that others are guessed behind it
};

// Drawn from the logits with the draw that the token itself will be drawn with; none where nothing
// may come there.
std::optional<DrawnGuess> draw_guess(Sampler& sampler, const Sequence& sequence, const Draft& draft,
                                     std::span<const float> logits);

// What a guess takes of a step, smoothed.
class GuessTime {
 public:
  void observe(double ms) { ms_ += (ms_ > 0 ? kRate : 1) * (ms - ms_); }
  double ms() const { return ms_; }

 private:
  static constexpr double kRate = 0.1;  // of what is new
  double ms_ = 0;
};

}  // namespace kvik
