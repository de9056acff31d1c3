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
#include "engine/sample/mask_maker.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/queue_estimate.h"
#include "engine/schedule/queue_limit.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "engine/speculate/head_drafter.h"
#include "engine/watch/live_recorder.h"
#include "engine/watch/live_view.h"
#include "engine/watch/snapshot.h"
#include "engine/watch/step_hooks.h"
#include "kv/kv_cache.h"
#include "kv/ledger.h"
#include "model/decoder.h"
#include "tier/tier_link.h"

namespace kvik {

class DraftModel;
struct KvBudget;

struct EngineOptions {
  uint64_t kv_budget_bytes = uint64_t{1} << 30;
  KvType kv_type = KvType::kInt8;
  uint32_t n_ctx_max = 0;                   // 0: as trained
  uint32_t max_step_tokens = 512;           // rows of one forward pass
  uint32_t max_running = 64;                // sequences in one batch
  uint32_t max_queue = 1024;                // waiting requests; more are refused
  std::optional<Duration> itl_target = {};  // of steps in which somebody decodes; absent: no limit
  PageLog* page_log = nullptr;              // who hears of prefixes that come and go; borrowed
  std::vector<TierPlace> tiers = {};        // where pages outlive the engine, the nearest first
  SpeculationOptions speculation = {};
  Sharing sharing = Sharing::kAll;  // who finds whose pages
  TenantMarks tenants = {};         // those whom the operator named
};

// Token ids in, token ids out. Owns model, cache, scheduler and sampler; one thread.
class Engine {
 public:
  // The backend and the clock are borrowed. `draft`, where there is one, guesses what comes next:
  // a model with the same vocabulary, whose pages are a part of the budget.
  // Errors: kInvalidArgument where a budget or context cannot hold anything.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<Model> model, Backend& backend,
                                                const EngineOptions& options, const Clock& clock,
                                                std::unique_ptr<Model> draft = nullptr);

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

  // One turn: plan, forward, sample, publish, commit, settle. False where there was nothing to do.
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

  // Before the first step.
  void set_step_hooks(StepHooks hooks) { hooks_ = std::move(hooks); }

  EngineSnapshot snapshot() const;
  // With the pages that changed since the last view, or all.
  LiveView live_view(PageMap::Extent extent);
  // So far: pages change between steps too, where a tier takes them.
  uint64_t n_page_changes() const { return kv_.pages().pool().n_changes(); }
  // Of this moment, on any thread: a tier goes on while the engine has nothing to do.
  AllTierCounters tier_counters() const { return tier_ ? tier_->counters() : AllTierCounters{}; }
  std::optional<PageLogCounts> page_log_counts() const { return kv_.pages().log_counts(); }
  const EngineLimits& limits() const { return limits_; }
  const Clock& clock() const { return clock_; }
  const Model& model() const { return *model_; }
  // What pages must have in common for one to serve in the place of another: model, KV type, page
  // layout, numerics.
  const std::string& cache_identity() const { return cache_identity_; }

 private:
  struct Models {
    std::unique_ptr<Model> model;
    std::unique_ptr<Model> draft;  // null: none
    const KvBudget& budget;
  };
  Engine(Models models, Backend& backend, const EngineOptions& options, const EngineLimits& limits,
         const Clock& clock);

  // What the logits of an entry's rows say: the next tokens of its sequence, the n_tokens of
  // sampled_ from first_token on, or that it ends behind them; neither where its prompt is not
  // done. `last`: the newest of them, which no row has computed yet.
  struct Outcome {
    size_t first_token = 0;
    uint32_t n_tokens = 0;
    std::optional<TokenId> last;
    std::optional<FinishReason> end;
  };

  // A row of logits: of the decoder's last step, or held from an earlier one.
  struct LogitsRow {
    size_t decoder_row = 0;
    std::span<const float> held = {};
  };
  struct PublishedRow {
    LogitsRow logits;
    uint32_t position = 0;  // of its token
  };

  std::string identity_for(const Adapter* adapter) const;
  bool forward(const StepPlan& plan);
  void break_off();
  void announce(const StepPlan& plan, TimePoint begin);
  void begin_mask_step();
  void begin_masks(const StepPlan& plan);
  bool wait_for_masks();
  void accept(const StepPlan& plan);
  std::span<const TokenId> tokens_of(const StepPlan::Entry& entry);
  void sample(const StepPlan& plan);
  Outcome sample_rows(const StepPlan::Entry& entry, size_t first_row);
  std::optional<TokenEvent> sample_token(Sequence& sequence, const LogitsRow& row,
                                         Outcome& outcome);
  std::optional<TokenId> pick(Sequence& sequence, const LogitsRow& row);
  std::span<const float> logits_of(const LogitsRow& row);
  void hold(const StepPlan::Entry& entry, size_t row);
  bool sample_held();
  void sample_held(Sequence& sequence);
  void publish(const StepPlan& plan);
  void publish_progress(const StepPlan::Entry& entry, uint32_t n_accepted);
  uint32_t publish_rows(size_t index, const StepPlan::Entry& entry, size_t first_row);
  void publish_logits(Sequence& sequence, const PublishedRow& row);
  EventSink::Verdict publish_token(const StepPlan::Entry& entry, const TokenEvent& token,
                                   const PublishedRow& row);
  void publish_trace(const StepPlan::Entry& entry, TokenId token, const PublishedRow& row);
  void count_drafts(const StepPlan& plan);
  void settle(const StepPlan& plan);
  void settle(Sequence& sequence, const Outcome& outcome);
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
  Reservation draft_pages_;
  Reservation states_;
  Reservation open_pages_;
  Reservation pages_;  // what is left of the budget for pages
  StepHooks hooks_;
  std::vector<RequestId> step_ids_;  // of the requests in the step
  KvCache kv_;
  std::unique_ptr<TierLink> tier_;     // null where there is none
  std::unique_ptr<DraftModel> draft_;  // null where there is none; outlives the sequences
  std::optional<HeadDrafter> head_;    // of a model with a guesser
  Scheduler scheduler_;
  const TenantMarks tenants_;
  Sampler sampler_;
  MaskMaker mask_maker_;
  std::string cache_identity_;
  EngineSnapshot counters_;
  LiveRecorder live_{kv_};
  QueueEstimate queue_;
  TimePoint step_end_;       // when the newest logits were there
  Duration forward_time_{};  // of the newest forward pass
  TimePoint company_until_;  // several tenants have or had requests

  // Of the current step; kept so that a step allocates nothing.
  std::vector<BatchSequence> batch_;
  std::vector<std::span<std::byte* const>> page_tables_;
  std::vector<RequestId> ready_;       // that were held
  std::vector<TokenId> draft_tokens_;  // of entries with drafts: each one's tokens side by side
  std::vector<TokenEvent> sampled_;
  std::vector<Outcome> outcomes_;   // of each entry
  std::vector<uint32_t> accepted_;  // rows of each entry that stand
  std::vector<uint32_t> n_true_;    // of them, those that were guesses
};

}  // namespace kvik
