#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/sample/mask_maker.h"
#include "engine/sample/step_sampler.h"
#include "engine/schedule/queue_estimate.h"
#include "engine/schedule/queued_request.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "engine/speculate/mtp_head_drafter.h"
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
  uint32_t n_ctx_max = 0;          // 0: the context length that the model was trained with
  uint32_t max_step_tokens = 512;  // rows of one forward pass
  uint32_t max_running = 64;       // sequences in one batch
  uint32_t max_queue = 1024;       // waiting requests; more are rejected
  // Target time of steps with decoding sequences; absent: no limit.
  std::optional<Duration> itl_target = {};
  PageLog* page_log = nullptr;  // receives prefixes that become cached or are evicted; borrowed
  std::vector<TierPlace> tiers = {};  // tiers that store pages outside memory, the nearest first
  SpeculationOptions speculation = {};
  Sharing sharing = Sharing::kAll;  // whether tenants share pages
  TenantMarks tenants = {};         // tenants that the operator configured
};

// Runs requests: token ids in, token ids out. Owns the model, the cache, the scheduler and the
// sampler. Single-threaded, except for the functions marked "any thread".
//
// engine.cpp has the step; engine_publish.cpp has events, counters and views. If the token bitmask
// of a row is not ready, the sequence holds the logits of the row, and a later step samples them.
class Engine {
 public:
  // Borrows the backend and the clock. `draft`, if not null, is a draft model with the same
  // vocabulary; its pages are part of the KV budget.
  // Errors: kInvalidArgument if the budget or the context is too small, a limit is 0, or the draft
  // model does not fit the model; and those of starting the tiers.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<Model> model, Backend& backend,
                                                const EngineOptions& options, const Clock& clock,
                                                std::unique_ptr<Model> draft = nullptr);

  ~Engine();  // waits for pending writes of the tiers, as long as TierLink::save_rest()

  // Checks whether the request could finish if it ran alone. Any thread. Errors: kContextLength if
  // prompt and answer exceed the context, which is never larger than the budget; kInvalidArgument
  // for an empty prompt, max_chunk 0, or ids outside the vocabulary in the prompt, the stop tokens
  // or the biases.
  Result<void> check(const Request& request) const;

  // Adds a request that has passed check(). Its events come from step() and cancel(). Its place, if
  // it holds one, is released at its first step.
  void submit(QueuedRequest queued);
  void submit(RequestId id, Request request, std::shared_ptr<EventSink> sink);
  void cancel(RequestId id);
  void cancel_all();
  // Ends all answers without their events: calls EventSink::on_no_memory() of each request, which
  // frees what was not read, and lets go of the sink. cancel_all() must follow.
  void drop_answers();

  // Runs one step: plan, forward, sample, publish, commit, settle. Returns false if there was
  // nothing to do.
  bool step();

  // Returns true if a tier is fetching pages, so that a step may have work once they arrive.
  // wait_for_tier() waits for that.
  bool is_fetching() const { return tier_ && tier_->is_fetching(); }
  void wait_for_tier(Duration at_most) {
    if (tier_) tier_->wait(at_most);
  }
  // Sets the callback that a tier calls, on any thread, when it has something for a step.
  void set_wake(std::function<void()> wake) {
    if (tier_) tier_->set_wake(std::move(wake));
  }

  // Call before the first step.
  void set_step_hooks(StepHooks hooks) { hooks_ = std::move(hooks); }

  EngineSnapshot snapshot() const;
  // Returns a view with the pages that changed since the last view, or with all pages.
  LiveView live_view(PageMap::Extent extent);
  // Returns the number of page changes so far. Pages also change between steps, when a tier stores
  // them.
  uint64_t n_page_changes() const { return kv_.pages().pool().n_changes(); }
  // Return current values. Any thread: tiers continue to work while the engine is idle.
  AllTierCounters tier_counters() const { return tier_ ? tier_->counters() : AllTierCounters{}; }
  std::optional<PageLogCounts> page_log_counts() const { return kv_.pages().log_counts(); }
  const EngineLimits& limits() const { return limits_; }
  const Clock& clock() const { return clock_; }
  const Model& model() const { return *model_; }
  // Returns the string that identifies the model, KV type, page layout and numerics. Only pages
  // with equal identities can replace each other.
  const std::string& cache_identity() const { return cache_identity_; }

 private:
  struct Models {
    std::unique_ptr<Model> model;
    std::unique_ptr<Model> draft;  // null: none
    const KvBudget& budget;
  };
  Engine(Models models, Backend& backend, const EngineOptions& options, const EngineLimits& limits,
         const Clock& clock);

  // The result of sampling the rows of one entry: n_tokens tokens of sampled_ from first_token on,
  // or the reason why the sequence ends after them. `last` is the newest token; its K and V are
  // not computed yet. Both are absent if the prompt is not finished.
  struct Outcome {
    size_t first_token = 0;
    uint32_t n_tokens = 0;
    std::optional<TokenId> last;
    std::optional<FinishReason> end;
  };

  // A row of logits: of the decoder's last step, or held from an earlier step.
  struct LogitsRow {
    size_t decoder_row = 0;
    std::span<const float> held = {};
  };
  struct PublishedRow {
    LogitsRow logits;
    uint32_t position = 0;  // position of the row's token
  };

  std::string identity_for(const Adapter* adapter) const;
  bool forward(const StepPlan& plan);
  void abort_step();
  void announce(const StepPlan& plan, TimePoint begin);
  void begin_mask_step();
  void begin_masks(const StepPlan& plan);
  bool wait_for_masks();
  // Applies the accepted draft tokens to the recurrent states.
  void accept(const StepPlan& plan);
  std::span<const TokenId> tokens_of(const StepPlan::Entry& entry);
  void sample(const StepPlan& plan);
  size_t pick_rows(std::span<const StepPlan::Entry> entries, size_t row);
  Outcome sample_rows(const StepPlan::Entry& entry, size_t first_row, TokenPick first);
  std::optional<TokenEvent> sample_token(TokenPick pick, const LogitsRow& row, Outcome& outcome);
  TokenPick pick_at(Sequence& sequence, const LogitsRow& row);
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
  // The KV budget and its shares: copies in transfer from and to tiers, pages of the draft model,
  // recurrent states, open pages, and pages.
  Ledger ledger_;
  Reservation tier_writes_, tier_reads_;
  Reservation draft_pages_;
  Reservation states_;
  Reservation open_pages_;
  Reservation pages_;  // the rest of the budget
  StepHooks hooks_;
  std::vector<RequestId> step_ids_;  // requests in the step
  KvCache kv_;
  std::unique_ptr<TierLink> tier_;      // null: none
  std::unique_ptr<DraftModel> draft_;   // null: none; outlives the sequences
  std::optional<MtpHeadDrafter> head_;  // only if the model has an MTP head
  Scheduler scheduler_;
  const TenantMarks tenants_;
  StepSampler step_sampler_;
  MaskMaker mask_maker_;
  std::string cache_identity_;
  EngineSnapshot counters_;
  LiveRecorder live_{kv_};
  QueueEstimate queue_;
  TimePoint step_end_;               // time at which the newest logits were ready
  Duration forward_time_{};          // time of the newest forward pass
  TimePoint several_tenants_until_;  // time until which several tenants count as present

  // Scratch of the current step, kept so that a step allocates nothing.
  std::vector<BatchSequence> batch_;
  std::vector<std::span<std::byte* const>> page_tables_;
  std::vector<RequestId> ready_;       // sequences whose held logits can be sampled
  std::vector<TokenId> draft_tokens_;  // tokens of the entries that have drafts, concatenated
  std::vector<TokenPick> picks_;       // made together, by ascending row
  std::vector<TokenEvent> sampled_;
  std::vector<Outcome> outcomes_;            // by entry
  std::vector<uint32_t> accepted_;           // number of accepted rows of each entry
  std::vector<uint32_t> n_accepted_drafts_;  // number of accepted draft tokens of each entry
};

}  // namespace kvik
