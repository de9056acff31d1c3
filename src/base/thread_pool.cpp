#include "base/thread_pool.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/process/thread.h"

namespace kvik {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(30);

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until `done()` is true; returns false if the spin time is over first.
template <class Done>
bool spin_until(const Done& done) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

// Sleeps while the word has this value, but may return early. std::atomic::wait() would call
// sched_yield() first, after which the system prefers other processes.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(const std::atomic<uint32_t>& word, int n_max) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, n_max, nullptr, nullptr, 0);
}

// Pauses of a worker between items, while the system takes its core away from time to time.
class Pauses {
 public:
  bool is_due() const { return std::chrono::steady_clock::now() >= due_; }

  // Sleeps if the system has taken the core away lately.
  void take() {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    const TimePoint now = std::chrono::steady_clock::now();
    if (used.ru_nivcsw != n_taken_) busy_until_ = now + kMemory;
    n_taken_ = used.ru_nivcsw;
    if (now < busy_until_) std::this_thread::sleep_for(kPause);
    restart();
  }
  // Called after the worker has slept.
  void restart() { due_ = std::chrono::steady_clock::now() + kInterval; }

 private:
  // Less than the few milliseconds for which the system lets a thread run.
  static constexpr std::chrono::milliseconds kInterval{1};
  static constexpr std::chrono::microseconds kPause{50};
  static constexpr std::chrono::milliseconds kMemory{100};

  TimePoint due_{}, busy_until_{};
  long n_taken_ = 0;  // involuntary context switches
};

}  // namespace

ThreadPool::ThreadPool(uint32_t n_threads) : shares_(n_threads) {
  CHECK(n_threads >= 1);
  for (; n_threads_ < n_threads; ++n_threads_) {
    auto worker = start_thread("kvik-compute", [this, t = n_threads_] { worker_main(t); });
    if (!worker) {
      started_ =
          fail(worker.error().code, fmt::format("{}; only {} of {} compute threads were started",
                                                worker.error().message, n_threads_, n_threads));
      return;
    }
    workers_.push_back(std::move(*worker));
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  wake(epoch_, INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_erased(size_t n_items, Erased call, const void* body) {
  if (n_items == 0) return;
  call_ = call;
  body_ = body;
  if (n_threads_ == 1 || n_items == 1) {
    for (size_t item = 0; item < n_items; ++item) call(body, item, 0);
    return;
  }
  for (uint32_t thread = 0; thread < n_threads_; ++thread) {
    shares_[thread].next.store(n_items * thread / n_threads_, std::memory_order_relaxed);
    shares_[thread].end = n_items * (thread + 1) / n_threads_;
  }
  shares_[0].core.store(sched_getcpu(), std::memory_order_relaxed);
  joined_.store(kOpen, std::memory_order_release);
  // seq_cst: ordered against n_asleep_, so that no worker goes to sleep and misses it
  epoch_.fetch_add(1);
  if (n_asleep_.load() != 0) wake(epoch_, INT_MAX);
  work(0, [] { return false; });
  wait_for_workers();
}

void ThreadPool::wait_for_workers() {
  joined_.fetch_and(~kOpen, std::memory_order_relaxed);
  const auto all_left = [this] {
    return (joined_.load(std::memory_order_acquire) & kWorkers) == 0;
  };
  if (spin_until(all_left)) return;
  joined_.fetch_or(kCallerSleeps, std::memory_order_relaxed);
  for (;;) {
    const uint32_t joined = joined_.load(std::memory_order_acquire);
    if ((joined & kWorkers) == 0) return;
    sleep_while(joined_, joined);
  }
}

// Returns true if no item is left, false if stop() is true before.
template <class Stop>
bool ThreadPool::work(uint32_t thread, const Stop& stop) {
  for (uint32_t i = 0; i < n_threads_; ++i) {
    Share& share = shares_[(thread + i) % n_threads_];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      if (stop()) return false;
      const size_t item = share.next.fetch_add(1, std::memory_order_relaxed);
      if (item < share.end) call_(body_, item, thread);
    }
  }
  return true;
}

// Returns true if the worker has joined the loop: call_, body_ and shares_ then stay valid until it
// leaves.
bool ThreadPool::join_loop() {
  uint32_t joined = joined_.load(std::memory_order_relaxed);
  do {
    if ((joined & kOpen) == 0) return false;
  } while (!joined_.compare_exchange_weak(joined, joined + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed));
  return true;
}

void ThreadPool::leave_loop() {
  const uint32_t before = joined_.fetch_sub(1, std::memory_order_release);
  if (before == (kCallerSleeps | 1)) wake(joined_, 1);
}

// Moves a worker that woke up on the core of another thread of the pool to a core without one, if
// there is any. The affinity is narrowed for a moment and then restored.
void ThreadPool::leave_shared_core(uint32_t thread) {
  const auto core_of = [](const Share& share) {
    return share.core.load(std::memory_order_relaxed);
  };
  std::atomic<int>& own = shares_[thread].core;
  own.store(sched_getcpu(), std::memory_order_relaxed);
  if (std::ranges::count(shares_, core_of(shares_[thread]), core_of) == 1) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t free = allowed;
  for (const Share& share : shares_) {
    if (core_of(share) >= 0) CPU_CLR(static_cast<size_t>(core_of(share)), &free);
  }
  if (CPU_COUNT(&free) == 0 || sched_setaffinity(0, sizeof(free), &free) != 0) return;
  own.store(sched_getcpu(), std::memory_order_relaxed);
  // If this fails, the affinity stays narrowed. The worker runs correctly nevertheless.
  static_cast<void>(sched_setaffinity(0, sizeof(allowed), &allowed));
}

void ThreadPool::worker_main(uint32_t thread) {
  uint32_t seen = 0;
  Pauses pauses;
  for (;;) {
    const auto called = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(called)) {
      n_asleep_.fetch_add(1);
      while (epoch_.load() == seen) sleep_while(epoch_, seen);
      n_asleep_.fetch_sub(1);
      leave_shared_core(thread);
      pauses.restart();
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    for (bool is_done = false; !is_done && join_loop();) {
      is_done = work(thread, [&pauses] { return pauses.is_due(); });
      leave_loop();
      if (pauses.is_due()) pauses.take();
    }
  }
}

}  // namespace kvik
