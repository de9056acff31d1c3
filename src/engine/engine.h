#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/snapshot.h"
#include "kv/kv_cache.h"
#include "model/decoder.h"

namespace kvik {

struct EngineOptions {
  uint64_t kv_budget_bytes = uint64_t{1} << 30;
  KvType kv_type = KvType::kBF16;
  uint32_t n_ctx_max = 0;             // 0: as trained
  uint32_t max_step_tokens = 512;     // rows of one forward pass
  uint32_t max_running = 64;          // sequences in one batch
  uint32_t max_queue = 1024;          // waiting requests; more are refused
};

// Token ids in, token ids out. Owns model, cache, scheduler and sampler; one thread.
class Engine {
 public:
  // The backend and the clock are borrowed.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<Model> model, Backend& backend,
                                                const EngineOptions& options, const Clock& clock);

  // Whether the request could ever finish here: kContextLength, kInvalidArgument (ids outside the
  // vocabulary, an empty prompt), kExhausted (more K and V than the whole budget holds). Any thread.
  Result<void> check(const Request& request) const;

  // Takes a checked request. Its events come from step() and cancel().
  void submit(RequestId id, Request request, std::shared_ptr<EventSink> sink);
  void cancel(RequestId id);

  // One turn: plan, forward, sample, publish. False where there was nothing to do.
  bool step();

  EngineSnapshot snapshot() const;
  const EngineLimits& limits() const { return limits_; }

 private:
  Engine(std::unique_ptr<Model> model, Backend& backend, const EngineOptions& options,
         const Clock& clock);

  void forward(const StepPlan& plan);
  void publish(const StepPlan& plan);
  void accept_token(Sequence& sequence, std::span<const float> logits);
  void finish(Sequence& sequence, FinishReason reason);

  std::unique_ptr<Model> model_;
  const Clock& clock_;
  EngineLimits limits_;
  KvCache kv_;
  Decoder decoder_;
  Scheduler scheduler_;
  Sampler sampler_;
  Logits logits_;
  EngineSnapshot counters_;
};

}  // namespace kvik
