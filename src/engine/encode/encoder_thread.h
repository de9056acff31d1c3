#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/encode/encode_queue.h"
#include "engine/schedule/queued_request.h"
#include "engine/schedule/request_inbox.h"
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

// Runs an encoder on its own thread, batch by batch, and passes requests to it through an inbox.
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

  using Batch = std::vector<QueuedRequest>;

  Result<void> check(const Request& request) const;
  void main();
  bool run_once();
  bool take_messages();
  void add(QueuedRequest queued);
  void step();
  bool compute(const Batch& batch);
  void publish(const Batch& batch, TimePoint begin, bool is_done);
  void finish(const QueuedRequest& queued, FinishReason reason, TimePoint begin);
  void record(size_t n_texts, uint32_t n_tokens, TimePoint begin);

  const std::unique_ptr<Model> model_;
  const Clock& clock_;
  const EngineLimits limits_;
  const uint32_t n_rows_, n_texts_;
  const std::unique_ptr<Encoder> encoder_;
  RequestInbox inbox_;

  // Encoder thread only.
  RequestInbox::Messages messages_;
  EncodeQueue queue_;
  EngineSnapshot counters_;
  size_t n_published_ = 0;  // requests of the batch that got their events

  std::thread thread_;
};

}  // namespace kvik
