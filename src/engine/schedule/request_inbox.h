#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/schedule/queue_limit.h"
#include "engine/schedule/queued_request.h"
#include "engine/watch/snapshot.h"

namespace kvik {

// Passes requests and cancels from any thread to the one that computes them, the worker, and the
// worker's state to all others.
class RequestInbox {
 public:
  RequestInbox(uint32_t max_queue, uint32_t n_tenants, const Clock& clock);

  // Queues a request. The sink is kept until on_finish() has returned. Any thread. Errors:
  // kExhausted if the queue is full (see QueueLimit), kUnavailable while draining.
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);
  // Returns the error with which submit() would reject any request now.
  Result<void> check_room() const;
  void cancel(RequestId id);

  // Stops accepting requests and waits until the worker is idle. Returns false if at_most passes
  // first.
  bool drain(Duration at_most);
  // Makes take() return false.
  void stop();
  bool is_stopping() const;

  // Ends the worker's wait.
  void wake();
  // Returns a count that grows with every take() and are_cancelled(), and wakes the worker.
  uint64_t probe_progress();

  // Returns what the worker has published, with the requests that it has not taken yet.
  EngineSnapshot snapshot() const;

  // The rest is for the worker alone.
  struct Messages {
    Messages();
    std::vector<QueuedRequest> requests;
    std::vector<RequestId> cancels;
    bool empty() const { return requests.empty() && cancels.empty(); }
  };
  // Waits for messages, wake() or stop(), but not beyond `until`: TimePoint::min() does not wait,
  // TimePoint::max() is no limit. Replaces the messages. Returns false after stop().
  bool take(Messages& messages, TimePoint until);
  // Returns whether all of these requests were canceled since the last take(), or stop() was
  // called.
  bool are_cancelled(std::span<const RequestId> ids);
  void begin_step(const RunningStep& step, uint32_t n_running, uint32_t n_waiting);
  // The step that was begun, if any, has ended.
  void publish(const EngineSnapshot& snapshot, bool is_busy);

 private:
  QueueLimit limit_;
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar wake_;
  CondVar idle_;
  std::vector<QueuedRequest> requests_ GUARDED_BY(mutex_);
  std::vector<RequestId> cancels_ GUARDED_BY(mutex_);
  // A cancel or stop is pending; read between layers without the lock.
  std::atomic<bool> has_cancels_ = false;
  std::atomic<uint64_t> n_signs_ = 0;  // see probe_progress()
  EngineSnapshot snapshot_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  bool is_draining_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  bool is_idle_ GUARDED_BY(mutex_) = true;
  bool is_woken_ GUARDED_BY(mutex_) = false;
};

}  // namespace kvik
