#include "base/process/high_priority.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

namespace kvik {
namespace {

// Returns (policy, nice value) of the calling thread.
std::pair<int, int> scheduling_of_thread() {
  return {sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, getpriority(PRIO_PROCESS, 0)};
}

bool within(std::chrono::seconds at_most, const std::function<bool()>& is_reached) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!is_reached()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

TEST(HighPriority, lasts_while_the_thread_takes_little) {
  std::thread([] {
    const auto usual = scheduling_of_thread();
    HighPriority priority;
    const auto high = scheduling_of_thread();
    if (high == usual) GTEST_SKIP() << "the system does not allow it";
    EXPECT_TRUE(within(std::chrono::seconds(20), [&] {
      priority.check();
      return scheduling_of_thread() == usual;
    })) << "a thread that always computes";
    EXPECT_TRUE(within(std::chrono::seconds(20), [&] {
      std::this_thread::sleep_for(HighPriority::kWindow);
      priority.check();
      return scheduling_of_thread() == high;
    })) << "one that sleeps";
  }).join();
}

TEST(HighPriority, is_not_inherited) {
  std::thread([] {
    const auto usual = scheduling_of_thread();
    const HighPriority priority;
    if (sched_getscheduler(0) == SCHED_OTHER)
      GTEST_SKIP() << "the system allows no realtime thread";
    std::thread([&] { EXPECT_EQ(scheduling_of_thread().first, usual.first); }).join();
  }).join();
}

}  // namespace
}  // namespace kvik
