#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/encode/encode_queue.h"
#include "engine/request/request.h"
#include "engine/schedule/queue_limit.h"
#include "engine/watch/snapshot.h"

namespace kvik {

class Backend;
class Encoder;
class Model;

struct EncoderOptions {
  uint32_t n_ctx_max = 0;          // tokens of a text; 0: as trained
  uint32_t max_step_tokens = 512;  // rows of a batch; a longer text is a batch of its own
  uint32_t max_running = 64;       // texts of a batch
  uint32_t max_queue = 1024;       // waiting requests; more are rejected
  uint32_t n_tenants = 1;          // configured tenants
};

// Runs an encoder on its own thread, batch by batch, and passes requests to it through a queue.
// Requests ask for hidden states or scores (Request::Wants).
class EncoderThread {
 public:
  // Owns the model; borrows the backend and the clock. Errors: kUnsupported if the backend has no
  // can_encode(), kIo if the thread cannot be started.
  static Result<std::unique_ptr<EncoderThread>> start(std::unique_ptr<Model> model,
                                                      Backend& backend,
                                                      const EncoderOptions& options,
                                                      const Clock& clock);
  ~EncoderThread();  // cancels all requests

  // Returns the rows of the largest batch.
  static uint32_t n_rows(const EncoderOptions& options, uint32_t n_ctx_train);

  // These are like those of EngineThread. Any thread.
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);
  void cancel(RequestId id);
  bool drain(Duration at_most);
  EngineSnapshot snapshot() const;
  const EngineLimits& limits() const { return limits_; }
  uint64_t probe_progress();

 private:
  EncoderThread(std::unique_ptr<Model> model, Backend& backend, const EncoderOptions& options,
                const Clock& clock);

  Result<void> check(const Request& request) const;
  void main();
  bool take_messages();
  void add(EncodeJob job);
  void step();
  bool compute(const std::vector<EncodeJob>& batch);
  bool are_cancelled(const std::vector<EncodeJob>& batch);
  void publish(const std::vector<EncodeJob>& batch, TimePoint begin, bool is_done);
  void finish(const EncodeJob& job, FinishReason reason, TimePoint begin);
  void record(size_t n_texts, uint32_t n_tokens, TimePoint begin);

  const std::unique_ptr<Model> model_;
  const Clock& clock_;
  const EngineLimits limits_;
  const uint32_t n_rows_, n_texts_;
  const std::unique_ptr<Encoder> encoder_;
  QueueLimit queue_limit_;

  mutable Mutex mutex_;
  CondVar wake_, idle_;
  std::vector<EncodeJob> inbox_ GUARDED_BY(mutex_);
  std::vector<RequestId> cancels_ GUARDED_BY(mutex_);
  std::atomic<bool> has_cancels_ = false;  // a cancel or stop is pending
  std::atomic<uint64_t> n_signs_ = 0;      // see EngineThread::probe_progress()
  EngineSnapshot snapshot_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
  bool draining_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool is_idle_ GUARDED_BY(mutex_) = true;
  bool is_woken_ GUARDED_BY(mutex_) = false;

  // Encoder thread only.
  EncodeQueue queue_;
  EngineSnapshot counters_;
  std::vector<RequestId> cancelled_;  // requests of the batch that were canceled meanwhile
  size_t n_published_ = 0;            // requests of the batch that got their events
  std::thread thread_;
};

}  // namespace kvik
