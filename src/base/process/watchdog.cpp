#include "base/process/watchdog.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/process/thread.h"

namespace kvik {

Result<std::unique_ptr<Watchdog>> Watchdog::start(const ServiceManager& manager, Probe probe) {
  const std::optional<Duration> interval = manager.watchdog_interval();
  if (!interval) return std::unique_ptr<Watchdog>();
  std::unique_ptr<Watchdog> watchdog(new Watchdog(manager, *interval / 4, std::move(probe)));
  TRY_ASSIGN(watchdog->thread_,
             start_thread("kvik-watchdog", [raw = watchdog.get()] { raw->main(); }));
  return watchdog;
}

Watchdog::Probe Watchdog::probe_of(std::function<uint64_t()> count) {
  return [count = std::move(count), last = std::optional<uint64_t>()]() mutable {
    const uint64_t now = count();
    return std::exchange(last, now) != now;
  };
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  join_if_started(thread_);
}

void Watchdog::main() {
  for (bool had_progress = true;;) {
    const bool has_progress = probe_();
    if (has_progress) manager_.notify("WATCHDOG=1");
    if (!has_progress && had_progress)
      log::warn("watchdog: no progress for {:.1f} s", to_s(period_));
    had_progress = has_progress;
    const MutexLock lock(mutex_);
    if (wake_.wait_for(mutex_, period_, [this]() REQUIRES(mutex_) { return is_stopping_; })) return;
  }
}

}  // namespace kvik
