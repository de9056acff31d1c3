#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/result.h"

namespace kvik {

// Runs the loops inside a step on a fixed number of threads. The caller is thread 0 and works too.
//
// run() may be called from one thread at a time. Between loops, workers spin for about 30 µs (a
// barrier is cheaper than a wake-up) and then sleep. Each thread processes its own share of the
// items in order, so that adjacent memory is read as one stream, and then items that other threads
// have not started. None of this changes bits, because items do not depend on each other.
//
// On a busy machine the system runs other processes on the cores of the pool. A loop does not wait
// for workers that have not joined it. It must wait for one that is stopped in the middle of an
// item: the caller then sleeps, so that the worker can have its core, and a worker whose core the
// system takes away sleeps for a moment now and then between two items, so that other processes run
// then and not in the middle of the next item.
class ThreadPool {
 public:
  explicit ThreadPool(uint32_t n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t n_threads() const { return n_threads_; }

  // Returns kIo if fewer threads than requested could be started. The pool works with those.
  const Result<void>& started() const { return started_; }

  // Calls body(item, thread) once for each item in [0, n_items), and returns when all calls are
  // done.
  template <class Body>
  void run(size_t n_items, const Body& body) {
    run_erased(
        n_items,
        [](const void* b, size_t item, uint32_t thread) {
          (*static_cast<const Body*>(b))(item, thread);
        },
        &body);
  }

 private:
  using Erased = void (*)(const void* body, size_t item, uint32_t thread);

  // Adjacent items of one thread: thread t of T has [n t / T, n (t + 1) / T).
  struct alignas(64) Share {
    std::atomic<size_t> next{0};
    size_t end = 0;
    std::atomic<int> core{-1};  // core on which the thread was last seen
  };

  void run_erased(size_t n_items, Erased call, const void* body);
  template <class Stop>
  bool work(uint32_t thread, const Stop& stop);
  bool join_loop();
  void leave_loop();
  void wait_for_workers();
  void leave_shared_core(uint32_t thread);
  void worker_main(uint32_t thread);

  // Bits of joined_: set while workers may join the loop; set while the caller sleeps until the
  // last worker has left.
  static constexpr uint32_t kOpen = uint32_t{1} << 31;
  static constexpr uint32_t kCallerSleeps = uint32_t{1} << 30;
  static constexpr uint32_t kWorkers = kCallerSleeps - 1;

  uint32_t n_threads_ = 1;
  Result<void> started_;
  Erased call_ = nullptr;
  const void* body_ = nullptr;
  std::vector<Share> shares_;                   // shares by thread
  alignas(64) std::atomic<uint32_t> epoch_{0};  // incremented by every loop
  // Number of workers in this loop, plus the bits above.
  alignas(64) std::atomic<uint32_t> joined_{0};
  alignas(64) std::atomic<uint32_t> n_asleep_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace kvik
