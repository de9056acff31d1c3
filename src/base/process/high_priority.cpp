#include "base/process/high_priority.h"

#include <sched.h>
#include <sys/resource.h>

#include "base/process/processor_budget.h"

namespace kvik {
namespace {

constexpr pid_t kThisThread = 0;

// Returns false if the system does not allow it.
bool set_policy(int policy, int priority) {
  const sched_param parameters{.sched_priority = priority};
  return sched_setscheduler(kThisThread, policy | SCHED_RESET_ON_FORK, &parameters) == 0;
}

}  // namespace

HighPriority::HighPriority()
    : nice_(getpriority(PRIO_PROCESS, kThisThread)),
      window_begin_(std::chrono::steady_clock::now()),
      used_before_(thread_time()) {
  raise();
}

void HighPriority::check() {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now - window_begin_ < kWindow) return;
  const Duration used = thread_time();
  const double share = to_s(used - used_before_) / to_s(now - window_begin_);
  window_begin_ = now;
  used_before_ = used;
  if (is_high_ && share > kMaxShare) lower();
  if (!is_high_ && share < kMaxShare / 2) raise();
}

void HighPriority::raise() {
  constexpr int kLowerNice = 10;
  is_high_ = true;
  if (set_policy(SCHED_RR, sched_get_priority_min(SCHED_RR))) return;
  static_cast<void>(setpriority(PRIO_PROCESS, kThisThread, nice_ - kLowerNice));
}

void HighPriority::lower() {
  is_high_ = false;
  static_cast<void>(set_policy(SCHED_OTHER, 0));
  static_cast<void>(setpriority(PRIO_PROCESS, kThisThread, nice_));
}

}  // namespace kvik
