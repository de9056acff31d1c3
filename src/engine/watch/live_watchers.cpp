#include "engine/watch/live_watchers.h"

#include <fmt/format.h>

#include "engine/engine.h"

namespace kvik {

using std::chrono::steady_clock;

Result<void> LiveWatchers::add(const std::shared_ptr<LiveSink>& sink) {
  const MutexLock lock(mutex_);
  if (has_ended_) return fail(ErrorCode::kUnavailable, "the server is shutting down");
  std::erase_if(sinks_, [](const auto& weak) { return weak.expired(); });
  if (sinks_.size() >= kMax) {
    return fail(
        ErrorCode::kExhausted,
        fmt::format("{} clients are watching already; try again when one has disconnected", kMax));
  }
  sinks_.push_back(sink);
  has_new_watcher_ = true;
  is_watched_ = true;
  return {};
}

void LiveWatchers::end() {
  std::vector<std::shared_ptr<LiveSink>> sinks;
  {
    const MutexLock lock(mutex_);
    has_ended_ = true;
    for (const auto& weak : sinks_) {
      if (auto sink = weak.lock()) sinks.push_back(std::move(sink));
    }
    sinks_.clear();
    is_watched_ = false;
  }
  for (const auto& sink : sinks) sink->on_end();
}

std::vector<std::shared_ptr<LiveSink>> LiveWatchers::active_sinks() {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<LiveSink>> sinks;
  for (const auto& weak : sinks_) {
    if (auto sink = weak.lock()) sinks.push_back(std::move(sink));
  }
  if (sinks.size() < sinks_.size()) {
    std::erase_if(sinks_, [](const auto& weak) { return weak.expired(); });
  }
  is_watched_ = !sinks_.empty();
  return sinks;
}

void LiveWatchers::show(Engine& engine, Changes changes) {
  if (!is_watched_) return;
  has_changes_ |= changes == Changes::kSome || engine.n_page_changes() != n_changes_shown_;
  const TimePoint now = steady_clock::now();
  if (!has_changes_ && !has_new_watcher_) return;
  if (now < last_shown_ + kPause) return;
  const std::vector<std::shared_ptr<LiveSink>> sinks = active_sinks();
  if (sinks.empty()) return;
  // Cleared before the view is made: a watcher added later gets a whole view next time.
  const bool is_for_newcomer = has_new_watcher_.exchange(false);
  const auto view = std::make_shared<const LiveView>(
      engine.live_view(is_for_newcomer ? PageMap::Extent::kAll : PageMap::Extent::kChanges));
  has_changes_ = false;
  n_changes_shown_ = engine.n_page_changes();
  last_shown_ = now;
  for (const auto& sink : sinks) sink->on_view(view);
}

std::optional<TimePoint> LiveWatchers::due() const {
  if (!is_watched_ || !(has_changes_ || has_new_watcher_)) return std::nullopt;
  return last_shown_ + kPause;
}

}  // namespace kvik
