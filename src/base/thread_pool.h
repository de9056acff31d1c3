#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/result.h"

namespace kvik {

// A fixed team of threads for the loops inside one step. The caller is thread 0 and works too.
//
// One owner: run() is called from one thread at a time. Workers spin for some 30 µs between two
// loops (a barrier costs less than a wake-up), then sleep. Each thread takes the items of its own
// share in their order, so that what lies side by side in memory is read as one stream, and then
// those that others have not come to. A loop waits for no worker that has not joined it, so one
// that another thread keeps from its core costs its help alone. That cannot change bits, for no
// item depends on another.
class ThreadPool {
 public:
  explicit ThreadPool(uint32_t n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t n_threads() const { return n_threads_; }

  // Why the team is smaller than was asked for: kIo. It works all the same.
  const Result<void>& started() const { return started_; }

  // Calls body(item, thread) once for each item in [0, n_items), and returns when all are done.
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

  // Neighbouring items: of thread t of T those in [n t / T, n (t + 1) / T).
  struct alignas(64) Share {
    std::atomic<size_t> next{0};
    size_t end = 0;
    std::atomic<int> core{-1};  // where the thread was last seen
  };

  void run_erased(size_t n_items, Erased call, const void* body);
  void work(uint32_t thread);
  bool join_loop();
  void leave_shared_core(uint32_t thread);
  void worker_main(uint32_t thread);

  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  uint32_t n_threads_ = 1;
  Result<void> started_;
  Erased call_ = nullptr;
  const void* body_ = nullptr;
  std::vector<Share> shares_;                   // of each thread
  alignas(64) std::atomic<uint32_t> epoch_{0};  // one more with every loop
  // Workers in this loop, and kOpen while more may join it.
  alignas(64) std::atomic<uint32_t> joined_{0};
  alignas(64) std::atomic<uint32_t> n_asleep_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace kvik
