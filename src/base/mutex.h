#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

// Locks whose annotations say what they guard. clang checks them (-Wthread-safety,
// tests/tidy/locks_test.py); other compilers ignore the annotations.
#if defined(__clang__)
#define KVIK_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define KVIK_THREAD_ATTRIBUTE(x)
#endif

#define CAPABILITY(name) KVIK_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY KVIK_THREAD_ATTRIBUTE(scoped_lockable)
// For a member: it may be accessed only while this lock is held.
#define GUARDED_BY(mutex) KVIK_THREAD_ATTRIBUTE(guarded_by(mutex))
#define ACQUIRED_BEFORE(...) KVIK_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
// For a function, or for a lambda after its parameters: the caller must hold the lock.
#define REQUIRES(...) KVIK_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) KVIK_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) KVIK_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS KVIK_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace kvik {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex until it is destroyed or unlock() is called.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() {
    if (is_held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ACQUIRE() {
    mutex_.lock();
    is_held_ = true;
  }
  void unlock() RELEASE() {
    mutex_.unlock();
    is_held_ = false;
  }

 private:
  Mutex& mutex_;
  bool is_held_ = true;
};

// Waits for a condition that another thread makes true under the mutex, which is released
// meanwhile. `is_so` is evaluated under the mutex; a wait with a time limit returns its value. The
// analysis cannot see that the caller's lock is the one that `is_so` requires, so it is disabled
// here.
class CondVar {
 public:
  template <class Condition>
  void wait(Mutex& mutex, Condition is_so) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock, is_so);
    lock.release();
  }
  template <class Condition>
  bool wait_until(Mutex& mutex, TimePoint end, Condition is_so)
      REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool came = condition_.wait_until(lock, end, is_so);
    lock.release();
    return came;
  }
  template <class Condition>
  bool wait_for(Mutex& mutex, Duration at_most, Condition is_so)
      REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool came = condition_.wait_for(lock, at_most, is_so);
    lock.release();
    return came;
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace kvik
