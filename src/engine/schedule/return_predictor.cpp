#include "engine/schedule/return_predictor.h"

#include <algorithm>
#include <cmath>

namespace kvik {
namespace {

constexpr double kFade = 1.0 / 32;               // weight of the newest request
constexpr double kQuantile = 0.9;                // of the pauses
constexpr double kStep = 0.3;                    // of the estimated quantile, in ln(s)
constexpr double kShortest = 1, kLongest = 600;  // s

}  // namespace

// A pause above the estimate raises it by kQuantile steps, one below lowers it by the rest of a
// step: the two balance at the quantile.
void ReturnPredictor::observe(std::optional<Duration> pause) {
  share_ += kFade * ((pause ? 1.0 : 0.0) - share_);
  if (!pause) return;
  const double step = to_s(*pause) > pause_s_ ? kQuantile : kQuantile - 1;
  pause_s_ = std::clamp(pause_s_ * std::exp(kStep * step), kShortest, kLongest);
}

std::optional<Duration> ReturnPredictor::usual_pause() const {
  if (share_ < 0.5) return std::nullopt;
  return from_ms(1e3 * pause_s_);
}

}  // namespace kvik
