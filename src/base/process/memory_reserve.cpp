#include "base/process/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>

namespace kvik {
namespace {

constexpr std::chrono::milliseconds kPause{2};

std::atomic<size_t> wanted_bytes{0};
std::atomic<void*> held{nullptr};
std::atomic<std::new_handler> previous_handler{nullptr};  // of the program that uses the library

// An allocation that fails in a destructor during an exception ends the process (Asio's coroutines
// post to their executor then).
constexpr std::chrono::seconds kDestructorWait{2};

thread_local Duration patience{};

// A sequence of failed allocations of one thread, each soon after the one before.
struct Shortages {
  TimePoint first, last;

  // Returns false if the thread has waited for as long as it may.
  bool wait_for_others(Duration at_most) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (now - last > 10 * kPause) first = now;  // another allocation
    last = now;
    if (now - first >= at_most) return false;
    std::this_thread::sleep_for(kPause);
    return true;
  }
};

// Called by operator new if malloc fails; operator new then tries again.
void on_shortage() {
  thread_local Shortages usual, of_destructors;
  if (void* const memory = held.exchange(nullptr)) return std::free(memory);
  const bool waited = std::uncaught_exceptions() > 0
                          ? of_destructors.wait_for_others(kDestructorWait)
                          : usual.wait_for_others(patience);
  if (waited) return;
  if (const std::new_handler previous = previous_handler.load()) return previous();
  throw std::bad_alloc();
}

void install_handler() {
  const std::new_handler before = std::set_new_handler(on_shortage);
  if (before != on_shortage) previous_handler.store(before);
}

}  // namespace

void MemoryReserve::keep(size_t n_bytes) {
  size_t before = wanted_bytes.load();
  while (before < n_bytes && !wanted_bytes.compare_exchange_weak(before, n_bytes)) continue;
  install_handler();
  void* const larger = before < n_bytes ? std::malloc(n_bytes) : nullptr;
  if (larger) return std::free(held.exchange(larger));
  static_cast<void>(restore());
}

bool MemoryReserve::restore() {
  const size_t n_bytes = wanted_bytes.load();
  if (n_bytes == 0 || held.load()) return true;
  void* const memory = std::malloc(n_bytes);
  if (!memory) return false;
  void* expected = nullptr;
  if (!held.compare_exchange_strong(expected, memory)) std::free(memory);
  return true;
}

bool MemoryReserve::is_kept() { return held.load() != nullptr; }

void MemoryReserve::wait_for_memory(Duration at_most) {
  patience = at_most;
  install_handler();
}

void throw_bad_alloc() { throw std::bad_alloc(); }

}  // namespace kvik
