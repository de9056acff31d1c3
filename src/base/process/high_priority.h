#pragma once

#include "base/clock.h"

namespace kvik {

// Lets the calling thread run before others while it takes little processor time: as a realtime
// thread where that is allowed (RLIMIT_RTPRIO or CAP_SYS_NICE), else with a lower nice value
// (RLIMIT_NICE), else not at all. One that has taken more than kMostShare of a core runs like the
// others until it takes less than half of that. Threads that it starts have the usual priority.
class HighPriority {
 public:
  HighPriority();
  HighPriority(const HighPriority&) = delete;
  HighPriority& operator=(const HighPriority&) = delete;

  // Looks at what the thread took, every kWindow at most. To be called often, by that thread.
  void check();

  static constexpr Duration kWindow = std::chrono::milliseconds(20);
  static constexpr double kMostShare = 0.5;

 private:
  void raise();
  void lower();

  int nice_;
  bool is_high_ = false;
  TimePoint window_begin_;
  Duration used_before_;  // processor time at the beginning of the window
};

}  // namespace kvik
