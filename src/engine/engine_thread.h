#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "engine/request/request.h"
#include "engine/schedule/queue_limit.h"
#include "engine/watch/live_watchers.h"
#include "engine/watch/snapshot.h"

namespace kvik {

class Engine;

// Runs an engine on a thread of its own and hands it requests through a queue. The queue and the
// snapshot are the only things shared; everything behind them belongs to the engine thread.
class EngineThread {
 public:
  explicit EngineThread(std::unique_ptr<Engine> engine);
  ~EngineThread();  // cancels what runs

  // Whether it runs; else kIo, and it may only be destroyed.
  const Result<void>& started() const { return started_; }

  // Any thread. Errors: kExhausted where the queue is full (see QueueLimit), kUnavailable when
  // draining, and those of Engine::check. The sink is kept until on_finish has returned.
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);

  // Any thread. Why submit() would refuse any request now: kExhausted, kUnavailable. For callers
  // who would rather know before they prepare one; submit() still decides.
  Result<void> check_room() const;

  // Any thread. The request's on_finish(kCancelled) comes within one step; a step all of whose
  // requests were cancelled is broken off between two layers. Unknown ids are ignored.
  void cancel(RequestId id);

  // Any thread. No new work is taken; true when all that runs has finished, false where the time
  // was over first.
  bool drain(Duration at_most);

  // Any thread: the sink sees the engine at work for as long as it lives. Errors:
  // LiveWatchers::add.
  Result<void> watch(const std::shared_ptr<LiveSink>& sink);

  // Any thread: the state after the last step, and the step that is being computed.
  EngineSnapshot snapshot() const;
  const EngineLimits& limits() const;

 private:
  struct Submission {
    RequestId id;
    Request request;
    std::shared_ptr<EventSink> sink;
    QueuePlace place;
  };

  void main();
  bool turn();
  void wake();
  bool take_messages();
  void submit(Submission submission);
  bool step();
  void begin_step(const RunningStep& step, uint32_t n_running, uint32_t n_waiting);
  bool are_cancelled(std::span<const RequestId> ids);

  QueueLimit queue_;
  LiveWatchers watchers_;
  std::unique_ptr<Engine> engine_;
  mutable Mutex mutex_;
  CondVar wake_;
  CondVar idle_;
  std::vector<Submission> inbox_ GUARDED_BY(mutex_);
  std::vector<RequestId> cancels_ GUARDED_BY(mutex_);
  std::atomic<bool> has_cancels_ = false;  // or stops: looked at between layers, without the lock
  EngineSnapshot snapshot_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  bool draining_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool is_idle_ GUARDED_BY(mutex_) = true;
  bool is_fetching_ GUARDED_BY(mutex_) = false;  // nothing to do before the tier answers
  bool is_woken_ GUARDED_BY(mutex_) = false;     // it did

  // Of the engine thread alone: what it took out of the queue.
  std::vector<Submission> taken_;
  std::vector<RequestId> taken_cancels_;
  bool took_messages_ = false;
  Result<void> started_;
  std::thread thread_;
};

}  // namespace kvik
