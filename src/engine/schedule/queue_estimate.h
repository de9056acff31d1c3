#pragma once

#include <cstdint>

#include "base/clock.h"

namespace kvik {

// Estimates the time that a new request would wait for its first step, from the recent speed of the
// queue.
class QueueEstimate {
 public:
  // Records that n_started requests had their first step now and n_waiting are still waiting.
  void record(uint32_t n_started, uint32_t n_waiting, TimePoint now) {
    if (n_started > 0 && is_moving_) {
      const double interval = to_s(now - last_start_) / n_started;
      interval_s_ += kGain * (interval - interval_s_);
    }
    if (n_started > 0) last_start_ = now;
    is_moving_ = n_waiting > 0;  // intervals without waiting requests measure demand, not speed
  }
  double wait_s(uint32_t n_waiting) const { return n_waiting * interval_s_; }

 private:
  static constexpr double kGain = 0.1;
  double interval_s_ = 0;
  TimePoint last_start_;
  bool is_moving_ = false;
};

}  // namespace kvik
