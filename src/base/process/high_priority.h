#pragma once

#include "base/clock.h"

namespace kvik {

// Raises the priority of the calling thread while it uses little processor time: as a realtime
// thread if allowed (RLIMIT_RTPRIO or CAP_SYS_NICE), else with a lower nice value (RLIMIT_NICE),
// else not at all. A thread that used more than kMaxShare of a core runs with normal priority
// until it uses less than half of that. Threads that it starts have normal priority.
class HighPriority {
 public:
  HighPriority();
  HighPriority(const HighPriority&) = delete;
  HighPriority& operator=(const HighPriority&) = delete;

  // Checks the thread's processor time, at most every kWindow. The thread calls it often.
  void check();

  static constexpr Duration kWindow = std::chrono::milliseconds(20);
  static constexpr double kMaxShare = 0.5;

 private:
  void raise();
  void lower();

  int nice_;
  bool is_high_ = false;
  TimePoint window_begin_;
  Duration used_before_;  // processor time at the beginning of the window
};

}  // namespace kvik
