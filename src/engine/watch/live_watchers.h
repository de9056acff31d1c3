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

// The watchers of an engine. Sends them views at least kPause apart, and none if there is no
// watcher or nothing has happened.
class LiveWatchers {
 public:
  static constexpr std::chrono::milliseconds kPause{100};
  static constexpr size_t kMax = 16;

  // Adds a watcher. Any thread. The next view is whole, for all watchers. Destroyed watchers are
  // removed. Errors: kExhausted if there are kMax watchers, kUnavailable after end().
  Result<void> add(const std::shared_ptr<LiveSink>& sink);

  // Notifies all watchers that no view will follow. Any thread.
  void end();

  // Sends a view if one is due. Engine thread, between two steps. `news` says whether something has
  // happened since the last call; changes of pages are detected without it.
  enum class Changes { kNone, kSome };
  void show(Engine& engine, Changes changes);

  // Returns the time at which show() will have something to send even if nothing more happens.
  // Engine thread.
  std::optional<TimePoint> due() const;

 private:
  std::vector<std::shared_ptr<LiveSink>> active_sinks();

  Mutex mutex_;
  std::vector<std::weak_ptr<LiveSink>> sinks_ GUARDED_BY(mutex_);
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::atomic<bool> is_watched_ = false;
  std::atomic<bool> has_new_watcher_ = false;

  // Engine thread only.
  bool has_changes_ = false;
  uint64_t n_changes_shown_ = 0;
  TimePoint last_shown_;
};

}  // namespace kvik
