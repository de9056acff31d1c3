#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/request/request.h"
#include "engine/request/sequence.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/queue_estimate.h"
#include "engine/schedule/queue_limit.h"
#include "engine/schedule/scheduler.h"
#include "engine/watch/live_recorder.h"
#include "engine/watch/live_view.h"
#include "engine/watch/snapshot.h"
#include "kv/kv_cache.h"
#include "kv/ledger.h"
#include "kv/tiers/tier_link.h"
#include "model/decoder.h"

namespace kvik {

struct EngineOptions {
  uint64_t kv_budget_bytes = uint64_t{1} << 30;
  KvType kv_type = KvType::kInt8;
  uint32_t n_ctx_max = 0;                   // 0: as trained
  uint32_t max_step_tokens = 512;           // rows of one forward pass
  uint32_t max_running = 64;                // sequences in one batch
  uint32_t max_queue = 1024;                // waiting requests; more are refused
  std::optional<Duration> itl_target = {};  // of steps in which somebody decodes; absent: no limit
  Tier* tier = nullptr;                     // where pages outlive the engine; borrowed
};

// Token ids in, token ids out. Owns model, cache, scheduler and sampler; one thread.
class Engine {
 public:
  // The backend and the clock are borrowed.
  // Errors: kInvalidArgument where a budget or context cannot hold anything.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<Model> model, Backend& backend,
                                                const EngineOptions& options, const Clock& clock);

  ~Engine();  // what the tier still has to write gets there first

  // Whether the request could ever finish here, alone: kContextLength (the context is never more
  // than the budget holds), kInvalidArgument (ids outside the vocabulary in prompt, stop tokens or
  // biases; an empty prompt; chunks of nothing). Any thread.
  Result<void> check(const Request& request) const;

  // Takes a checked request. Its events come from step() and cancel(). Its place in the queue,
  // where it has one, is free from its first step on.
  void submit(RequestId id, Request request, std::shared_ptr<EventSink> sink,
              QueuePlace place = {});
  void cancel(RequestId id);
  void cancel_all();

  // One turn: plan, forward, sample, commit, publish. False where there was nothing to do.
  bool step();

  // Whether a step could have something to do once the tier has answered; and waiting for that.
  bool is_fetching() const { return tier_ && tier_->is_fetching(); }
  void wait_for_tier(Duration at_most) {
    if (tier_) tier_->wait(at_most);
  }
  // Called on any thread when the tier has something for a step.
  void set_wake(std::function<void()> wake) {
    if (tier_) tier_->set_wake(std::move(wake));
  }

  EngineSnapshot snapshot() const;
  // With the pages that changed since the last view, or all.
  LiveView live_view(PageMap::Extent extent);
  // So far: pages change between steps too, where a tier takes them.
  uint64_t n_page_changes() const { return kv_.pool().n_changes(); }
  // Of this moment, on any thread: a tier goes on while the engine has nothing to do.
  TierCounters tier_counters() const { return tier_ ? tier_->counters() : TierCounters{}; }
  const EngineLimits& limits() const { return limits_; }
  const Model& model() const { return *model_; }
  // What pages must have in common for one to serve in the place of another: model, KV type, page
  // layout, numerics.
  const std::string& cache_identity() const { return cache_identity_; }

 private:
  Engine(std::unique_ptr<Model> model, Backend& backend, const EngineOptions& options,
         const EngineLimits& limits, const Clock& clock);

  // What the last logits of an entry say: its sequence's next token, or that it ends without one;
  // neither where its prompt is not done.
  struct Sampled {
    std::optional<TokenEvent> token;
    std::optional<FinishReason> end;
  };

  void forward(const StepPlan& plan);
  void sample(const StepPlan& plan);
  Sampled sample_token(const Sequence& sequence, size_t row);
  void publish(const StepPlan& plan);
  void publish_progress(Sequence& sequence, uint32_t n_new);
  void publish_rows(const StepPlan::Entry& entry, size_t first_row);
  void publish_token(Sequence& sequence, const TokenEvent& token, size_t row);
  void publish_trace(Sequence& sequence, TokenId token, std::span<const float> logits);
  void record_starts(const StepPlan& plan, TimePoint now);
  void record_token_time(Sequence& sequence);
  void record_step();
  void finish(Sequence& sequence, FinishReason reason);

  std::unique_ptr<Model> model_;
  const Clock& clock_;
  EngineLimits limits_;
  Decoder decoder_;
  Ledger ledger_;
  Reservation tier_writes_, tier_reads_;
  Reservation pages_;  // what is left of the budget for pages
  KvCache kv_;
  std::unique_ptr<TierLink> tier_;  // null where there is none
  Scheduler scheduler_;
  Sampler sampler_;
  std::string cache_identity_;
  EngineSnapshot counters_;
  LiveRecorder live_{kv_};
  QueueEstimate queue_;
  TimePoint step_end_;  // when the newest logits were there

  // Of the current step; kept so that a step allocates nothing.
  std::vector<BatchSequence> batch_;
  std::vector<std::span<std::byte* const>> page_tables_;
  std::vector<Sampled> sampled_;
  std::vector<uint32_t> accepted_;  // rows of each entry that stand
};

}  // namespace kvik
