#pragma once

#include <optional>

#include "base/clock.h"

namespace kvik {

// Predicts how long the next turn of a conversation takes to arrive, from those of the past.
class ReturnPredictor {
 public:
  // Records a new request: the time since the end of the turn that it continues; absent: it
  // continues none.
  void observe(std::optional<Duration> pause);

  // Returns the time within which nine of ten next turns arrive; absent if most requests continue
  // no conversation, so that most pages are not expected to be used again.
  std::optional<Duration> usual_pause() const;

 private:
  double share_ = 0;     // share of requests that continue a conversation; older ones fade
  double pause_s_ = 10;  // estimated 90% quantile
};

}  // namespace kvik
