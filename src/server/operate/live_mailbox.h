#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "service/service_api.h"

namespace kvik {

// Passes views from the engine thread to one reader on the network thread. For a slow reader, views
// are merged, so that never more than one view of all pages waits.
class LiveMailbox final : public LiveSink {
 public:
  void on_view(std::shared_ptr<const LiveView> view) override;
  void on_end() override;

  struct News {
    std::shared_ptr<const LiveView> view;  // null if there is none
    bool has_ended = false;
  };
  News take();

  // `wake` is called under the lock, from any thread, for each view.
  void set_wake(std::function<void()> wake);
  // After this returns, no wake is running or will follow.
  void close();

 private:
  Mutex mutex_;
  std::shared_ptr<const LiveView> view_ GUARDED_BY(mutex_);
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::function<void()> wake_ GUARDED_BY(mutex_);
};

// Returns the combination of two consecutive views.
LiveView merged(const LiveView& older, const LiveView& newer);

}  // namespace kvik
