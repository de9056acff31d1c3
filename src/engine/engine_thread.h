#pragma once

#include <atomic>
#include <cstdint>
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

// Runs an engine on its own thread and passes requests to it through a queue. Only the queue and
// the snapshot are shared; all other state belongs to the engine thread.
class EngineThread {
 public:
  explicit EngineThread(std::unique_ptr<Engine> engine);
  ~EngineThread();  // cancels all requests

  // Returns kIo if the thread could not be started; the object may then only be destroyed.
  const Result<void>& started() const { return started_; }

  // Queues a request. Any thread. Errors: kExhausted if the queue is full (see QueueLimit),
  // kUnavailable while draining, and those of Engine::check(). The sink is kept until on_finish()
  // has returned.
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);

  // Returns the error with which submit() would reject any request now: kExhausted or kUnavailable.
  // Any thread. Lets a caller check before it prepares a request; only submit() decides.
  Result<void> check_room() const;

  // Cancels a request; unknown ids are ignored. Any thread. on_finish(kCancelled) follows within
  // one step. A step whose requests are all canceled is interrupted between two layers, unless the
  // model has a recurrent state.
  void cancel(RequestId id);

  // Stops accepting requests and waits until the running ones have finished. Returns false if
  // at_most passes first. Any thread.
  bool drain(Duration at_most);

  // Sends views of the engine to the sink for as long as the sink lives. Any thread. Errors: those
  // of LiveWatchers::add().
  Result<void> watch(const std::shared_ptr<LiveSink>& sink);

  // Returns the state after the last step, and the step that is being computed. Any thread.
  EngineSnapshot snapshot() const;
  const EngineLimits& limits() const;

  // Returns a count that grows with every step and every layer of a step, and wakes the thread if
  // it is idle. Unless the thread hangs, the next call returns a larger one. Any thread.
  uint64_t probe_progress();

 private:
  struct Submission {
    RequestId id;
    Request request;
    std::shared_ptr<EventSink> sink;
    QueuePlace place;
  };

  void main();
  bool run_once();
  void wake();
  bool take_messages();
  void submit(Submission submission);
  bool step();
  void cancel_all();
  bool is_stopping() const;
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
  // A cancel or stop is pending; read between layers without the lock.
  std::atomic<bool> has_cancels_ = false;
  std::atomic<uint64_t> n_signs_ = 0;  // see probe_progress()
  EngineSnapshot snapshot_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  bool draining_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool is_idle_ GUARDED_BY(mutex_) = true;
  bool is_fetching_ GUARDED_BY(mutex_) = false;  // nothing to do before a tier answers
  bool is_woken_ GUARDED_BY(mutex_) = false;     // a tier has answered, or a watcher was added

  // Engine thread only: messages taken from the queue.
  std::vector<Submission> taken_;
  std::vector<RequestId> taken_cancels_;
  bool took_messages_ = false;
  Result<void> started_;
  std::thread thread_;
};

}  // namespace kvik
