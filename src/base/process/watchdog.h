#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/process/service_manager.h"
#include "base/result.h"

namespace kvik {

// Sends "WATCHDOG=1" to the service manager for as long as the process makes progress, on a thread
// of its own. If progress stops, so do the messages, and the service manager restarts the process.
class Watchdog {
 public:
  // Returns whether there was progress since the previous call. Called on the watchdog's thread,
  // four times per interval.
  using Probe = std::function<bool()>;

  // Returns a probe of a count that grows with progress. Its first call has nothing to compare with
  // and reports progress.
  static Probe probe_of(std::function<uint64_t()> count);

  // Returns null if the service manager expects no messages. `manager` must outlive the watchdog.
  // Errors: kIo (the thread could not be started).
  static Result<std::unique_ptr<Watchdog>> start(const ServiceManager& manager, Probe probe);

  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  Watchdog(const ServiceManager& manager, Duration period, Probe probe)
      : manager_(manager), period_(period), probe_(std::move(probe)) {}

  void main();

  const ServiceManager& manager_;
  const Duration period_;  // between two probes
  const Probe probe_;
  Mutex mutex_;
  CondVar wake_;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace kvik
