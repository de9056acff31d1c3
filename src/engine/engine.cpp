#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/quantity.h"
#include "base/rare_warning.h"
#include "engine/cache_identity.h"
#include "engine/kv_budget.h"
#include "engine/speculate/draft_model.h"
#include "engine/work_limits.h"

namespace kvik {
namespace {

// Time to wait for a mask before messages are handled again.
constexpr std::chrono::milliseconds kMaskPatience{1};

void count_rows(const StepPlan& plan, StepRecord& record) {
  record = {.n_sequences = static_cast<uint32_t>(plan.entries.size()), .planned_ms = plan.ms};
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    (sequence->is_decoding() ? record.n_decode_rows : record.n_prefill_rows) += n_new;
  }
}

// Returns what the cache held when the sequence began, plus what other sequences computed while it
// waited.
CacheReport cache_report(const Sequence& sequence) {
  CacheReport report = sequence.usage.cache;
  const uint32_t n_found = sequence.usage.cached_tokens;
  const uint32_t n_before_last = sequence.usage.prompt_tokens - 1;
  report.tier_tokens += sequence.n_loaded;
  const bool has_more = n_found > report.ram_tokens + report.tier_tokens;
  report.ram_tokens = n_found - report.tier_tokens;
  if (sequence.cacheable_tokens().empty() && n_before_last > 0) {
    report.miss = MissReason::kCacheOff;
    report.position = 0;
  } else if (has_more) {
    const bool is_all = n_found >= n_before_last;
    report.miss = is_all ? MissReason::kNone : MissReason::kNeverSeen;
    report.position = is_all ? std::nullopt : std::optional(n_found);
    report.expected.reset();
    report.got.reset();
  }
  if (sequence.n_loaded > 0 && n_found < n_before_last)
    report.miss = MissReason::kComputedWhileLoading;
  return report;
}

SpeculationOptions speculation_of(SpeculationOptions options, const Decoder& decoder,
                                  DraftModel* draft, MtpHeadDrafter* head) {
  if (draft) {
    options.drafter = draft;
  } else if (head) {
    options.drafter = head;
    options.drafts_in_pages = true;
  }
  options.n_max_in_step = decoder.n_draft_tokens_max();
  return options;
}

std::optional<MtpHeadDrafter> head_of(Decoder& decoder, const EngineLimits& limits,
                                      const Clock& clock) {
  if (!decoder.has_mtp_head()) return std::nullopt;
  return std::optional<MtpHeadDrafter>(std::in_place, decoder, limits.n_vocab, clock);
}

// Ignores all events.
class NoSink final : public EventSink {
 public:
  Verdict on_token(const TokenEvent&) override { return Verdict::kContinue; }
  void on_finish(FinishReason, const Usage&) override {}
};

std::shared_ptr<EventSink> no_sink() {
  static NoSink sink;
  return {std::shared_ptr<EventSink>(), &sink};  // without an owner, which would take memory
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<Model> model, Backend& backend,
                                               const EngineOptions& options, const Clock& clock,
                                               std::unique_ptr<Model> draft) {
  const ModelConfig& config = model->config();
  if (options.max_step_tokens == 0 || options.max_running == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("max_step_tokens is {} and max_running is {}, expected at least 1 each",
                            options.max_step_tokens, options.max_running));
  }
  TRY_ASSIGN(const KvBudget budget,
             divide_kv_budget(config, draft ? &draft->config() : nullptr, backend, options));
  const uint32_t n_ctx =
      config.n_ctx_within(options.n_ctx_max ? options.n_ctx_max : config.n_ctx_train);
  const EngineLimits limits{
      .n_ctx_max = static_cast<uint32_t>(std::min<uint64_t>(n_ctx, budget.kv_tokens)),
      .n_vocab = config.n_vocab,
      .kv_tokens = budget.kv_tokens,
      .max_queue = options.max_queue,
      .n_states = budget.layout.n_states,
      .n_tenants = static_cast<uint32_t>(std::max<size_t>(options.tenants.size(), 1))};
  if (draft && draft->config().has_state()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a draft model of architecture '{}' has a recurrent state; expected a "
                            "model with attention layers only, because a recurrent state cannot "
                            "roll back rejected draft tokens",
                            draft->config().architecture));
  }
  if (draft && draft->config().n_vocab != config.n_vocab) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the draft model has a vocabulary of {} tokens, expected the model's {}",
                    draft->config().n_vocab, config.n_vocab));
  }
  std::unique_ptr<Engine> engine(
      new Engine({.model = std::move(model), .draft = std::move(draft), .budget = budget}, backend,
                 options, limits, clock));
  if (engine->tier_) TRY(engine->tier_->started());
  return engine;
}

Engine::Engine(Models models, Backend& backend, const EngineOptions& options,
               const EngineLimits& limits, const Clock& clock)
    : model_(std::move(models.model)),
      clock_(clock),
      limits_(limits),
      decoder_(*model_, backend, options.kv_type, options.max_step_tokens),
      ledger_(options.kv_budget_bytes),
      tier_writes_(
          std::move(*ledger_.reserve(MemoryKind::kTierWrites, models.budget.tier_slots.bytes / 2))),
      tier_reads_(
          std::move(*ledger_.reserve(MemoryKind::kTierReads, models.budget.tier_slots.bytes / 2))),
      draft_pages_(std::move(*ledger_.reserve(MemoryKind::kDraftPages, models.budget.draft_bytes))),
      states_(std::move(*ledger_.reserve(MemoryKind::kStates, models.budget.states_bytes()))),
      open_pages_(std::move(*ledger_.reserve(MemoryKind::kOpenPages, models.budget.open_bytes()))),
      pages_(std::move(*ledger_.reserve(MemoryKind::kPages, ledger_.left()))),
      kv_(backend.memory(), pages_.bytes(), models.budget.layout, clock),
      tier_(!options.tiers.empty()
                ? std::make_unique<TierLink>(kv_, options.tiers, models.budget.tier_slots, clock)
                : nullptr),
      draft_(models.draft ? std::make_unique<DraftModel>(
                                std::move(models.draft), backend,
                                DraftModel::Options{.kv_type = options.kv_type,
                                                    .kv_budget_bytes = draft_pages_.bytes(),
                                                    .max_running = options.max_running,
                                                    .n_ctx_max = limits.n_ctx_max,
                                                    .sharing = options.sharing},
                                clock)
                          : nullptr),
      head_(head_of(decoder_, limits, clock)),
      scheduler_(kv_, {.max_step_tokens = options.max_step_tokens,
                       .max_running = models.budget.n_running,
                       .n_tenants = limits.n_tenants,
                       .itl_target = options.itl_target,
                       .speculation = speculation_of(options.speculation, decoder_, draft_.get(),
                                                     head_ ? &*head_ : nullptr)}),
      tenants_(options.tenants),
      step_sampler_(backend, limits.n_vocab),
      cache_identity_(identity_of(*model_, options.kv_type).text()) {
  backend.reserve(work_limits(model_->config(), model_->weight_kinds(), options));
  batch_.reserve(options.max_running);
  page_tables_.reserve(size_t{options.max_running} * kv_.layout().n_groups());
  draft_tokens_.reserve(options.max_step_tokens);
  picks_.reserve(options.max_running);
  sampled_.reserve(options.max_step_tokens);
  outcomes_.reserve(options.max_running);
  accepted_.reserve(options.max_running);
  n_accepted_drafts_.reserve(options.max_running);
  scheduler_.set_tier(tier_.get());
  kv_.pages().set_log(options.page_log);
  kv_.pages().set_sharing(options.sharing);
  kv_.pages().index().set_tenants(limits.n_tenants);
}

Result<void> Engine::check(const Request& request) const {
  if (request.prompt.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the prompt has no tokens, expected at least one",
                "prompt");
  }
  const auto check_id = [&](TokenId id, const char* what, const char* param) -> Result<void> {
    if (id < limits_.n_vocab) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} token {}, expected ids below {}", what, id, limits_.n_vocab),
                param);
  };
  for (const TokenId id : request.prompt) TRY(check_id(id, "the prompt holds", "prompt"));
  for (const TokenId id : request.stop_tokens)
    TRY(check_id(id, "the answer ends at", "stop_token_ids"));
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    TRY(check_id(id, "a bias is given to", "logit_bias"));
  }
  for (const std::vector<TokenId>& banned : request.sampling.banned) {
    CHECK(!banned.empty());
    for (const TokenId id : banned) TRY(check_id(id, "a ban is given to", "banned_tokens"));
  }
  for (const TokenId id : request.script) TRY(check_id(id, "the answer holds", "script"));
  if (request.max_chunk == 0) {
    return fail(ErrorCode::kInvalidArgument, "chunks of 0 tokens, expected at least 1",
                "max_chunk");
  }
  const uint64_t n_tokens = request.prompt.size() + uint64_t{request.max_tokens};
  if (n_tokens > limits_.n_ctx_max) {
    return fail(
        ErrorCode::kContextLength,
        fmt::format(
            "{} prompt tokens and {} tokens to generate are {} tokens, but the context size is {}",
            request.prompt.size(), request.max_tokens, n_tokens, limits_.n_ctx_max),
        "prompt");
  }
  return {};
}

void Engine::submit(RequestId id, Request request, std::shared_ptr<EventSink> sink) {
  submit({id, std::move(request), std::move(sink), {}, clock_.now()});
}

void Engine::submit(QueuedRequest queued) {
  auto sequence = std::make_unique<Sequence>(std::move(queued));
  sequence->table = kv_.make_table(
      root_key(identity_for(sequence->request.adapter.get()), sequence->request.cache_salt));
  const auto named = tenants_.find(sequence->request.tenant);
  sequence->table.owner = {
      .tenant = named != tenants_.end() ? named->second : tenant_hash(sequence->request.tenant),
      .pins = sequence->request.pins,
      .n_prompt = sequence->request.prompt.size()};
  const Adapter* adapter = sequence->request.adapter.get();
  if (adapter && !adapter->cache_key_suffix().empty()) {
    sequence->table.owner.adapter =
        std::make_shared<const std::string>(sequence->request.adapter_name);
  }
  if (sequence->request.constraint) {
    sequence->next_tokens.emplace(*sequence->request.constraint,
                                  NextTokens::Owner{.tenant = sequence->request.tenant,
                                                    .ends = sequence->request.stop_tokens,
                                                    .n_vocab = limits_.n_vocab});
  }
  scheduler_.add(std::move(sequence));
}

// Pages computed with an adapter that changes K or V are never shared with the model alone or with
// another adapter.
std::string Engine::identity_for(const Adapter* adapter) const {
  if (!adapter || adapter->cache_key_suffix().empty()) return cache_identity_;
  return fmt::format("{}/adapter {}", cache_identity_, adapter->cache_key_suffix());
}

void Engine::cancel(RequestId id) {
  if (Sequence* sequence = scheduler_.find(id)) finish(*sequence, FinishReason::kCancelled);
}

void Engine::cancel_all() {
  decoder_.abandon_step();  // if a step was interrupted by a lack of memory
  while (Sequence* sequence = scheduler_.any()) finish(*sequence, FinishReason::kCancelled);
}

void Engine::drop_answers() {
  scheduler_.for_each([](Sequence& sequence) {
    try {
      sequence.sink->on_no_memory();
    } catch (
        const std::bad_alloc&) {  // of a wake: the client has ended, or waits for its own limit
    }
    sequence.sink = no_sink();
  });
}

Engine::~Engine() {
  if (tier_) tier_->save_rest();
}

bool Engine::step() {
  if (tier_) tier_->pump();
  begin_mask_step();
  const bool has_sampled = sample_held();
  const StepPlan& plan = scheduler_.plan();
  if (plan.empty()) return has_sampled || wait_for_masks();
  const TimePoint begin = clock_.now();
  record_starts(plan, begin);
  count_rows(plan, counters_.last_step);
  announce(plan, begin);
  begin_masks(plan);
  const TimePoint forward_begin = clock_.now();
  const bool is_computed = forward(plan);
  forward_time_ = clock_.now() - forward_begin;
  mask_maker_.finish();
  if (!is_computed) {
    abort_step();
    return true;
  }
  step_end_ = clock_.now();
  sample(plan);
  publish(plan);
  count_drafts(plan);
  accept(plan);
  scheduler_.commit(plan, accepted_);
  settle(plan);
  const Duration time = clock_.now() - begin;
  scheduler_.observe(time);
  counters_.last_step.ms = to_ms(time);
  record_step();
  return true;
}

void Engine::record_starts(const StepPlan& plan, TimePoint now) {
  uint32_t n_started = 0;
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    if (sequence->started) continue;
    sequence->started = now;
    sequence->queue_place = {};
    sequence->usage.cache = sequence->queue.found.report();
    counters_.histograms.queue_s.record(to_s(now - sequence->submitted));
    ++n_started;
  }
  queue_.record(n_started, scheduler_.n_waiting(), now);
}

void Engine::record_step() {
  const StepRecord& step = counters_.last_step;
  EngineHistograms& histograms = counters_.histograms;
  ++counters_.steps;
  counters_.last_step_ms = step.ms;
  histograms.step_s.record(step.ms / 1e3);
  histograms.batch_sequences.record(step.n_sequences);
  histograms.batch_rows.record(step.n_decode_rows + step.n_prefill_rows);
  histograms.pages_in_use.record(kv_.counts().leased + kv_.counts().sealed);
  live_.record(step, step_end_);
}

void Engine::announce(const StepPlan& plan, TimePoint begin) {
  step_ids_.clear();
  for (const StepPlan::Entry& entry : plan.entries) step_ids_.push_back(entry.sequence->id);
  if (!hooks_.on_begin) return;
  const StepRecord& step = counters_.last_step;
  hooks_.on_begin({.n_sequences = step.n_sequences,
                   .n_decode_rows = step.n_decode_rows,
                   .n_prefill_rows = step.n_prefill_rows,
                   .begin = begin},
                  scheduler_.n_running(), scheduler_.n_waiting());
}

// Ends the requests of an interrupted step, all of which were canceled. Their earlier tokens stay
// in the cache.
void Engine::abort_step() {
  decoder_.abandon_step();
  const std::vector<RequestId> ids = step_ids_;
  for (const RequestId id : ids) cancel(id);
}

// Computes the rows of the plan. Returns false if the step was interrupted because all of its
// requests were canceled.
bool Engine::forward(const StepPlan& plan) {
  batch_.clear();
  page_tables_.clear();
  draft_tokens_.clear();
  const uint32_t n_groups = kv_.layout().n_groups();
  for (const StepPlan::Entry& entry : plan.entries) {
    entry.sequence->table.is_in_step = true;
    for (uint32_t g = 0; g < n_groups; ++g) {
      page_tables_.push_back(entry.sequence->table.addresses(g));
    }
  }
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const auto& [sequence, n_new, n_wanted] = plan.entries[i];
    batch_.push_back({.tokens = tokens_of(plan.entries[i]),
                      .first_position = sequence->n_cached,
                      .kv = {.groups = std::span(page_tables_).subspan(i * n_groups, n_groups),
                             .state = sequence->table.state(),
                             .open = sequence->table.open_pages()},
                      .want = {.n_last = n_wanted,
                               .is_hidden = sequence->wants_hidden(),
                               .needs_argmax_only = sequence->is_plain_greedy()},
                      .adapter = sequence->request.adapter.get(),
                      .n_draft_tokens = plan.entries[i].n_draft_tokens(),
                      .earlier = sequence->cached_tokens()});
  }
  if (!hooks_.are_cancelled) {
    decoder_.forward(batch_);
    return true;
  }
  // A step of a recurrent model is not interrupted: a partly updated state is of no use.
  const bool is_interruptible = !kv_.layout().has_state();
  return decoder_.forward_interruptible(batch_, [this, is_interruptible] {
    return hooks_.are_cancelled(step_ids_) && is_interruptible;
  });
}

// Applies the accepted draft tokens to the recurrent states. A snapshot taken at the commit then
// includes all accepted rows.
void Engine::accept(const StepPlan& plan) {
  if (plan.work.n_rows == plan.plain_work.n_rows) return;
  n_accepted_drafts_.clear();
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    CHECK(accepted_[i] >= plan.entries[i].n_own());
    n_accepted_drafts_.push_back(plan.entries[i].n_accepted_drafts(accepted_[i]));
  }
  decoder_.accept(n_accepted_drafts_);
}

// Starts the step of the mask maker. Budgets stay on for a second after several tenants had
// requests, so that pauses between a tenant's sequential requests do not switch them off.
void Engine::begin_mask_step() {
  constexpr Duration kTenantPresence = std::chrono::seconds(1);
  const TimePoint now = clock_.now();
  if (scheduler_.has_several_tenants()) several_tenants_until_ = now + kTenantPresence;
  const bool has_several_tenants = now < several_tenants_until_;
  mask_maker_.begin_step(has_several_tenants ? MaskMaker::Budgets::kOn : MaskMaker::Budgets::kOff,
                         forward_time_);
}

// Starts to make the masks of the tokens that the step will sample, in parallel with the forward
// pass.
void Engine::begin_masks(const StepPlan& plan) {
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    if (sequence->next_tokens && n_new >= sequence->n_pending()) {
      mask_maker_.begin(*sequence->next_tokens);
    }
  }
}

// Waits briefly for masks. Returns false if no sequence is held.
bool Engine::wait_for_masks() {
  const auto running = scheduler_.running();
  if (std::ranges::none_of(running, [](const auto& s) { return s->is_held(); })) return false;
  mask_maker_.wait(kMaskPatience);
  return true;
}

// Returns the tokens of an entry's rows: the pending tokens of its sequence, then its draft tokens.
std::span<const TokenId> Engine::tokens_of(const StepPlan::Entry& entry) {
  const Sequence& sequence = *entry.sequence;
  const auto own = std::span(sequence.tokens).subspan(sequence.n_cached);
  if (sequence.speculation.draft.empty()) return own.first(entry.n_new);
  const size_t begin = draft_tokens_.size();
  draft_tokens_.insert(draft_tokens_.end(), own.begin(), own.end());
  draft_tokens_.insert(draft_tokens_.end(), sequence.speculation.draft.begin(),
                       sequence.speculation.draft.end());
  return std::span(draft_tokens_).subspan(begin);
}

// Ends the sequence. Its page leases are released before the sink is notified.
void Engine::finish(Sequence& sequence, FinishReason reason) {
  const TimePoint now = clock_.now();
  Usage usage = sequence.usage;
  usage.completion_tokens = sequence.n_generated();
  usage.cache = cache_report(sequence);
  usage.queue_time = sequence.started.value_or(now) - sequence.submitted;
  if (usage.completion_tokens > 0) {
    usage.ttft = sequence.first_token - sequence.submitted;
    usage.decode_time = sequence.last_token - sequence.first_token;
  }
  const double e2e_s = to_s(now - sequence.submitted);
  const std::shared_ptr<EventSink> sink = sequence.sink;
  live_.record_end(sequence, clock_.now());
  scheduler_.remove(sequence);  // on std::bad_alloc here or above, finish() is called again
  if (usage.completion_tokens > 0) counters_.histograms.decode_s.record(to_s(usage.decode_time));
  counters_.histograms.e2e_s.record(e2e_s);
  ++counters_.finished[static_cast<size_t>(reason)];
  try {
    sink->on_finish(reason, usage);
  } catch (const std::bad_alloc&) {
    static log::RareWarning warn;
    warn("cannot report the end of a request: out of memory");
    sink->on_no_memory();
  }
}

LiveView Engine::live_view(PageMap::Extent extent) {
  return live_.view(snapshot(), scheduler_.running(), extent, clock_.now());
}

EngineSnapshot Engine::snapshot() const {
  EngineSnapshot snapshot = counters_;
  snapshot.n_waiting = scheduler_.n_waiting();
  snapshot.n_held = scheduler_.n_held();
  snapshot.n_running = scheduler_.n_running();
  snapshot.queue_wait_s = queue_.wait_s(snapshot.n_waiting);
  snapshot.preemptions = scheduler_.n_preemptions();
  snapshot.prompt_tokens = scheduler_.n_prompt_tokens();
  snapshot.cached_tokens = scheduler_.n_found_tokens();
  snapshot.evictions = kv_.pages().n_evictions();
  snapshot.pages = kv_.counts();
  snapshot.snapshots = kv_.snapshots().n_kept();
  if (kv_.layout().has_snapshots()) snapshot.snapshot_pages = kv_.counts(kv_.layout().n_groups());
  snapshot.tiers = tier_counters();
  snapshot.page_bytes = kv_.page_bytes();
  snapshot.n_groups = kv_.layout().n_groups();
  for (uint32_t g = 0; g < snapshot.n_groups; ++g) {
    snapshot.groups[g] = {decoder_.groups().windows[g], kv_.counts(g)};
  }
  snapshot.kv_budget_bytes = ledger_.budget();
  for (size_t k = 0; k < kMemoryKinds; ++k) snapshot.kv_bytes[k] = ledger_.bytes(MemoryKind(k));
  return snapshot;
}

}  // namespace kvik
