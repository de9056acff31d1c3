#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/watch/live_view.h"

namespace kvik {

class Engine;

// Who watches an engine, and when it is time to show them something: kPause apart at least, and
// nothing while nobody watches or nothing happens.
class LiveWatchers {
 public:
  static constexpr std::chrono::milliseconds kPause{100};
  static constexpr size_t kMax = 16;

  // Any thread. The next view is whole, for everybody. A watcher that was destroyed is forgotten.
  // Errors: kExhausted where kMax watch already, kUnavailable after end().
  Result<void> add(const std::shared_ptr<LiveSink>& sink);

  // Any thread. Tells all that no view will come.
  void end();

  // Engine thread, between two steps: shows the engine where that is due. News: something happened
  // since the last call; changes of pages it sees by itself.
  enum class News { kNone, kSome };
  void show(Engine& engine, News news);

  // Engine thread: when show() will have something to show though nothing more happens.
  std::optional<TimePoint> due() const;

 private:
  std::vector<std::shared_ptr<LiveSink>> living();

  Mutex mutex_;
  std::vector<std::weak_ptr<LiveSink>> sinks_ GUARDED_BY(mutex_);
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::atomic<bool> is_watched_ = false;
  std::atomic<bool> has_newcomer_ = false;

  // Of the engine thread.
  bool has_news_ = false;
  uint64_t n_changes_shown_ = 0;
  TimePoint last_shown_;
};

}  // namespace kvik
