#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "engine/schedule/queued_request.h"
#include "engine/schedule/request_inbox.h"
#include "engine/watch/live_watchers.h"
#include "engine/watch/snapshot.h"

namespace kvik {

class Engine;

// Runs an engine on its own thread and passes requests to it through an inbox. Only the inbox is
// shared; all other state belongs to the engine thread.
class EngineThread {
 public:
  explicit EngineThread(std::unique_ptr<Engine> engine);
  ~EngineThread();  // cancels all requests

  // Returns kIo if the thread could not be started; the object may then only be destroyed.
  const Result<void>& started() const { return started_; }

  // Queues a request. Any thread. Errors: those of Engine::check() and RequestInbox::submit().
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
  void main();
  bool run_once();
  bool take_messages();
  TimePoint end_of_wait() const;
  void submit(QueuedRequest queued);
  bool step();
  void cancel_all();

  RequestInbox inbox_;
  LiveWatchers watchers_;
  std::unique_ptr<Engine> engine_;

  // Engine thread only.
  RequestInbox::Messages messages_;
  bool has_work_ = false;

  Result<void> started_;
  std::thread thread_;
};

}  // namespace kvik
