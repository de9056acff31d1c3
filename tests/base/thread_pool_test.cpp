#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace kvik {
namespace {

TEST(ThreadPool, every_item_is_done_once_whatever_the_counts) {
  for (const uint32_t n_threads : {1u, 2u, 3u, 4u, 7u}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (const size_t n_items : {0u, 1u, 2u, 3u, 7u, 64u, 1000u}) {
      std::vector<std::atomic<int>> n_calls(n_items);
      pool.run(n_items, [&](size_t item, uint32_t) { n_calls[item].fetch_add(1); });
      for (const auto& calls : n_calls) EXPECT_EQ(calls.load(), 1);
    }
  }
}

TEST(ThreadPool, thread_numbers_lie_below_the_team_size) {
  ThreadPool pool(3);
  std::atomic<uint32_t> largest{0};
  pool.run(500, [&](size_t, uint32_t thread) {
    uint32_t seen = largest.load();
    while (thread > seen && !largest.compare_exchange_weak(seen, thread)) {
    }
  });
  EXPECT_LT(largest.load(), 3u);
}

TEST(ThreadPool, no_two_items_run_on_one_thread_number_at_once) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> n_inside(4);
  std::atomic<bool> collided{false};
  pool.run(2000, [&](size_t, uint32_t thread) {
    if (n_inside[thread].fetch_add(1) != 0) collided = true;
    n_inside[thread].fetch_sub(1);
  });
  EXPECT_FALSE(collided.load());
}

// A thread processes its own share first, then those of the following threads, each from its
// owner's current position.
TEST(ThreadPool, a_thread_goes_through_each_share_in_its_order) {
  constexpr uint32_t kThreads = 3;
  constexpr size_t kItems = 301;
  ThreadPool pool(kThreads);
  std::vector<size_t> items[kThreads];
  pool.run(kItems, [&](size_t item, uint32_t thread) { items[thread].push_back(item); });
  const auto share_of = [](size_t item) {
    uint32_t share = 0;
    while (item >= kItems * (share + 1) / kThreads) ++share;
    return share;
  };
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    const auto rank = [&](size_t item) {
      return std::pair((share_of(item) + kThreads - thread) % kThreads, item);
    };
    EXPECT_TRUE(std::ranges::is_sorted(items[thread], {}, rank)) << thread;
  }
}

// More threads than any test machine has cores, in items that sleep and items that do not: the
// caller waits for workers in the middle of an item, and loops end while others wake up.
TEST(ThreadPool, loops_of_64_threads_whose_items_sleep_do_each_item_once) {
  constexpr size_t kItems = 256;
  ThreadPool pool(64);
  ASSERT_EQ(pool.n_threads(), 64u);
  std::vector<uint64_t> n_calls(kItems, 0);  // plain memory: each loop sees the writes of the last
  for (uint64_t round = 1; round <= 40; ++round) {
    pool.run(kItems, [&](size_t item, uint32_t thread) {
      EXPECT_LT(thread, 64u);
      if ((item + round) % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      n_calls[item] += round;
    });
    EXPECT_EQ(std::ranges::count(n_calls, round * (round + 1) / 2), ptrdiff_t{kItems});
  }
}

// The caller's own items are done long before the worker's, for which it sleeps.
TEST(ThreadPool, a_loop_ends_after_the_longest_item_of_a_worker) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> has_worker{false};
    bool is_over = false;  // plain memory
    pool.run(2, [&](size_t, uint32_t thread) {
      if (thread == 0) {
        while (!has_worker) std::this_thread::yield();
        return;
      }
      has_worker = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      is_over = true;
    });
    EXPECT_TRUE(is_over);
  }
}

// Plain memory without atomics: writes of a loop are visible to the caller and to the next loop.
TEST(ThreadPool, many_rapid_loops_see_each_others_writes) {
  ThreadPool pool(3);
  std::vector<uint64_t> values(16, 0);
  std::vector<uint64_t> copies(16, 0);
  for (uint64_t round = 1; round <= 3000; ++round) {
    pool.run(values.size(), [&](size_t item, uint32_t) { values[item] += item + round; });
    pool.run(values.size(),
             [&](size_t item, uint32_t) { copies[item] = values[values.size() - 1 - item]; });
    ASSERT_EQ(copies[0], values[15]);
  }
  for (size_t item = 0; item < values.size(); ++item) {
    EXPECT_EQ(values[item], 3000 * item + 3000 * 3001 / 2);
  }
}

// The two items wait for each other, so the loop only ends when a second thread joins.
TEST(ThreadPool, workers_that_fell_asleep_wake_for_the_next_loop) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // much longer than the spin time
    std::atomic<int> n_arrived{0};
    pool.run(2, [&](size_t, uint32_t) {
      n_arrived.fetch_add(1);
      while (n_arrived.load() != 2) std::this_thread::yield();
    });
    EXPECT_EQ(n_arrived.load(), 2);
  }
}

TEST(ThreadPool, a_loop_at_any_moment_of_falling_asleep_is_not_missed) {
  ThreadPool pool(2);
  for (int wait_us = 0; wait_us < 120; ++wait_us) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(wait_us);
    while (std::chrono::steady_clock::now() < until) {
    }
    std::atomic<int> n_arrived{0};
    pool.run(2, [&](size_t, uint32_t) {
      n_arrived.fetch_add(1);
      while (n_arrived.load() != 2) std::this_thread::yield();
    });
  }
}

std::atomic<bool> is_held, is_done;

// The worker is held in a signal handler, as if the system ran another process on its core.
TEST(ThreadPool, a_loop_does_not_wait_for_a_worker_that_does_not_come) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer delays signal handlers until the thread wakes";
#endif
  ThreadPool pool(2);
  pthread_t worker{};
  std::atomic<int> n_arrived{0};
  pool.run(2, [&](size_t, uint32_t thread) {
    if (thread == 1) worker = pthread_self();
    n_arrived.fetch_add(1);
    while (n_arrived.load() != 2) std::this_thread::yield();
  });
  std::signal(SIGUSR1, [](int) {
    is_held = true;
    while (!is_done) {
    }
  });
  pthread_kill(worker, SIGUSR1);
  while (!is_held) std::this_thread::yield();
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> n_done{0};
    pool.run(100, [&](size_t, uint32_t) { n_done.fetch_add(1); });
    EXPECT_EQ(n_done.load(), 100);
  }
  is_done = true;
  std::signal(SIGUSR1, SIG_DFL);
}

// The two items wait for each other. If only one core is allowed, they alternate on it.
std::pair<int, int> cores_of_both(ThreadPool& pool) {
  std::atomic<int> n_arrived{0};
  int cores[2] = {-1, -1};
  pool.run(2, [&](size_t item, uint32_t) {
    n_arrived.fetch_add(1);
    while (n_arrived.load() != 2) std::this_thread::yield();
    cores[item] = sched_getcpu();
  });
  return {cores[0], cores[1]};
}

TEST(ThreadPool, a_worker_that_wakes_has_another_core_than_its_caller_if_there_is_one) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one core alone is allowed";
  constexpr int kRounds = 100;
  ThreadPool pool(2);
  int n_shared = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // much longer than the spin time
    const auto [one, other] = cores_of_both(pool);
    n_shared += one == other;
  }
  EXPECT_LT(n_shared, kRounds / 2);
  cpu_set_t afterwards;
  pool.run(2, [&](size_t item, uint32_t) {
    if (item == 1) sched_getaffinity(0, sizeof(afterwards), &afterwards);
  });
  EXPECT_TRUE(CPU_EQUAL(&afterwards, &allowed));
}

TEST(ThreadPool, one_core_does_for_a_team) {
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  {
    ThreadPool pool(3);
    for (int round = 0; round < 20; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto [first, second] = cores_of_both(pool);
      EXPECT_EQ(first, second);
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

TEST(ThreadPool, a_pool_ends_at_once_awake_or_asleep_used_or_not) {
  for (int round = 0; round < 20; ++round) {
    ThreadPool unused(4);
    ThreadPool used(4);
    used.run(8, [](size_t, uint32_t) {});
  }
  ThreadPool asleep(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace kvik
