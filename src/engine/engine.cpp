#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/quantity.h"
#include "engine/work_limits.h"

namespace kvik {
namespace {

constexpr std::chrono::seconds kFlushTime{10};  // for what a tier still has to write at the end

void count_rows(const StepPlan& plan, StepRecord& record) {
  record = {.n_sequences = static_cast<uint32_t>(plan.entries.size()), .planned_ms = plan.ms};
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    (sequence->is_decoding() ? record.n_decode_rows : record.n_prefill_rows) += n_new;
  }
}

// What was found when the sequence began, and what others computed while it waited.
CacheReport cache_report(const Sequence& sequence) {
  CacheReport report = sequence.usage.cache;
  const uint32_t n_found = sequence.usage.cached_tokens;
  const uint32_t n_findable = sequence.usage.prompt_tokens - 1;
  const bool has_more = n_found > report.ram_tokens + report.disk_tokens;
  report.ram_tokens = n_found - report.disk_tokens;
  if (sequence.findable_tokens().empty() && n_findable > 0) {
    report.miss = MissReason::kCacheOff;
    report.position = 0;
  } else if (has_more) {
    const bool is_all = n_found >= n_findable;
    report.miss = is_all ? MissReason::kNone : MissReason::kNeverSeen;
    report.position = is_all ? std::nullopt : std::optional(n_found);
    report.expected.reset();
    report.got.reset();
  }
  return report;
}

TierLink::Slots tier_slots(const EngineOptions& options, size_t page_bytes) {
  if (!options.tier) return {};
  return TierLink::slots_for(*options.tier, page_bytes, options.kv_budget_bytes);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<Model> model, Backend& backend,
                                               const EngineOptions& options, const Clock& clock) {
  const ModelConfig& config = model->config();
  const KvLayout layout =
      kv_layout(backend.page_bytes(model->kv_geometry(options.kv_type)), config);
  const uint64_t tier_bytes = tier_slots(options, layout.page_bytes).bytes;
  const uint64_t page_budget =
      options.kv_budget_bytes - std::min(tier_bytes, options.kv_budget_bytes);
  const uint64_t n_pages = page_budget / layout.page_bytes;
  const uint64_t kv_tokens = tokens_held(layout, n_pages);
  if (kv_tokens == 0 || n_pages > UINT32_MAX / kPageTokens) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a KV budget of {} holds {} pages of {}, expected {} to {}",
                            format_bytes(page_budget), n_pages, format_bytes(layout.page_bytes),
                            layout.n_groups(), UINT32_MAX / kPageTokens));
  }
  if (options.max_step_tokens == 0 || options.max_running == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} tokens a step for {} sequences, expected at least 1 each",
                            options.max_step_tokens, options.max_running));
  }
  const uint32_t n_ctx = options.n_ctx_max ? options.n_ctx_max : config.n_ctx_train;
  const EngineLimits limits{
      .n_ctx_max = static_cast<uint32_t>(std::min<uint64_t>(n_ctx, kv_tokens)),
      .n_vocab = config.n_vocab,
      .kv_tokens = kv_tokens,
      .max_queue = options.max_queue};
  return std::unique_ptr<Engine>(new Engine(std::move(model), backend, options, limits, clock));
}

Engine::Engine(std::unique_ptr<Model> model, Backend& backend, const EngineOptions& options,
               const EngineLimits& limits, const Clock& clock)
    : model_(std::move(model)),
      clock_(clock),
      limits_(limits),
      decoder_(*model_, backend, options.kv_type, options.max_step_tokens),
      ledger_(options.kv_budget_bytes),
      tier_writes_(std::move(*ledger_.reserve(
          MemoryKind::kTierWrites, tier_slots(options, decoder_.page_bytes()).bytes / 2))),
      tier_reads_(std::move(*ledger_.reserve(
          MemoryKind::kTierReads, tier_slots(options, decoder_.page_bytes()).bytes / 2))),
      pages_(std::move(*ledger_.reserve(MemoryKind::kPages, ledger_.left()))),
      kv_(backend.memory(), pages_.bytes(), kv_layout(decoder_.page_bytes(), model_->config()),
          clock),
      tier_(options.tier
                ? std::make_unique<TierLink>(kv_, *options.tier,
                                             tier_slots(options, decoder_.page_bytes()), clock)
                : nullptr),
      scheduler_(kv_, {.max_step_tokens = options.max_step_tokens,
                       .max_running = std::min(options.max_running, options.max_step_tokens),
                       .itl_target = options.itl_target}),
      sampler_(limits.n_vocab),
      cache_identity_(fmt::format("{}/{}/layout {}/{}", model_->fingerprint(),
                                  name_of(options.kv_type), kPageLayoutVersion,
                                  model_->numerics())) {
  backend.reserve(work_limits(model_->config(), model_->weight_kinds(), options));
  batch_.reserve(options.max_running);
  page_tables_.reserve(size_t{options.max_running} * kv_.layout().n_groups());
  sampled_.reserve(options.max_running);
  accepted_.reserve(options.max_running);
  scheduler_.set_tier(tier_.get());
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
  if (request.max_chunk == 0) {
    return fail(ErrorCode::kInvalidArgument, "chunks of 0 tokens, expected at least 1",
                "max_chunk");
  }
  const uint64_t n_tokens = request.prompt.size() + uint64_t{request.max_tokens};
  if (n_tokens > limits_.n_ctx_max) {
    return fail(ErrorCode::kContextLength,
                fmt::format("{} prompt tokens and {} to generate make {}, but the context holds {}",
                            request.prompt.size(), request.max_tokens, n_tokens, limits_.n_ctx_max),
                "prompt");
  }
  return {};
}

void Engine::submit(RequestId id, Request request, std::shared_ptr<EventSink> sink,
                    QueuePlace place) {
  auto sequence = std::make_unique<Sequence>(id, std::move(request), std::move(sink), clock_.now());
  sequence->place = std::move(place);
  sequence->root = root_key(cache_identity_, sequence->request.cache_salt);
  sequence->table = kv_.make_table();
  sequence->table.owner = {.tenant = tenant_hash(sequence->request.tenant),
                           .pins = sequence->request.pins};
  scheduler_.add(std::move(sequence));
}

void Engine::cancel(RequestId id) {
  if (Sequence* sequence = scheduler_.find(id)) finish(*sequence, FinishReason::kCancelled);
}

void Engine::cancel_all() {
  while (Sequence* sequence = scheduler_.any()) finish(*sequence, FinishReason::kCancelled);
}

Engine::~Engine() {
  if (tier_) tier_->flush(kFlushTime);
}

bool Engine::step() {
  if (tier_) tier_->pump();
  const StepPlan& plan = scheduler_.plan();
  if (plan.empty()) return false;
  const TimePoint begin = clock_.now();
  record_starts(plan, begin);
  count_rows(plan, counters_.last_step);
  forward(plan);
  step_end_ = clock_.now();
  sample(plan);
  scheduler_.commit(plan, accepted_);
  publish(plan);
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
    sequence->place = {};
    sequence->usage.cache = sequence->found.report();
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

void Engine::forward(const StepPlan& plan) {
  batch_.clear();
  page_tables_.clear();
  const uint32_t n_groups = kv_.layout().n_groups();
  for (const StepPlan::Entry& entry : plan.entries) {
    for (uint32_t g = 0; g < n_groups; ++g) {
      page_tables_.push_back(entry.sequence->table.addresses(g));
    }
  }
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const auto& [sequence, n_new, n_wanted] = plan.entries[i];
    batch_.push_back({.tokens = std::span(sequence->tokens).subspan(sequence->n_cached, n_new),
                      .first_position = sequence->n_cached,
                      .kv = {.groups = std::span(page_tables_).subspan(i * n_groups, n_groups)},
                      .want = {.n_last = n_wanted, .is_hidden = sequence->wants_hidden()}});
  }
  decoder_.forward(batch_);
}

// Nothing is guessed ahead: all rows are tokens that the sequences have, so all of them stand.
void Engine::sample(const StepPlan& plan) {
  sampled_.clear();
  accepted_.clear();
  size_t n_rows = 0;
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    n_rows += n_wanted;
    const bool is_done = n_new == sequence->n_pending();
    sampled_.push_back(is_done ? sample_token(*sequence, n_rows - 1) : Sampled{});
    accepted_.push_back(n_new);
  }
}

// The token behind a sequence, all of whose tokens are computed, by the last of its rows.
Engine::Sampled Engine::sample_token(const Sequence& sequence, size_t row) {
  const auto end = [](FinishReason reason) { return Sampled{.token = {}, .end = reason}; };
  if (sequence.wants_hidden()) return end(FinishReason::kStop);
  const Request& request = sequence.request;
  if (sequence.n_generated() >= request.max_tokens) return end(FinishReason::kLength);
  const bool too_early = sequence.n_generated() < request.min_tokens;
  const std::span<const float> logits = decoder_.logits(row);
  const auto token = sampler_.sample(
      {.logits = logits,
       .params = request.sampling,
       .counts = sequence.counts,
       .masked = too_early ? std::span(request.stop_tokens) : std::span<const TokenId>(),
       .position = sequence.n_tokens()});
  if (!token) return end(FinishReason::kFailed);
  if (std::ranges::count(request.stop_tokens, *token) > 0) return end(FinishReason::kStop);
  TokenEvent event{.id = *token, .chosen = {}, .top = {}};
  if (request.n_logprobs) {
    event.chosen = logprob_of(logits, *token);
    event.top = top_logprobs(logits, *request.n_logprobs);
  }
  return {.token = std::move(event), .end = {}};
}

void Engine::publish(const StepPlan& plan) {
  size_t n_rows = 0;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const StepPlan::Entry& entry = plan.entries[i];
    Sequence& sequence = *entry.sequence;
    publish_progress(sequence, accepted_[i]);
    publish_rows(entry, n_rows);
    n_rows += entry.n_wanted;
    const Sampled& sampled = sampled_[i];
    if (sampled.token) publish_token(sequence, *sampled.token, n_rows - 1);
    if (sampled.end) finish(sequence, *sampled.end);
  }
}

// Of a prompt whose newest n_new tokens were computed.
void Engine::publish_progress(Sequence& sequence, uint32_t n_new) {
  const uint32_t n_prompt = sequence.usage.prompt_tokens;
  if (sequence.n_cached - n_new >= n_prompt) return;
  sequence.sink->on_prompt({.n_done = std::min(sequence.n_cached, n_prompt),
                            .n_all = n_prompt,
                            .n_cached = sequence.usage.cached_tokens});
}

// The wanted rows of an entry, from the decoder's first_row on, each position once.
void Engine::publish_rows(const StepPlan::Entry& entry, size_t first_row) {
  Sequence& sequence = *entry.sequence;
  const bool is_hidden = sequence.wants_hidden();
  if (!is_hidden && sequence.request.logits == Request::Logits::kNone) return;
  const uint32_t first_position = sequence.n_cached - entry.n_wanted;
  for (uint32_t r = 0; r < entry.n_wanted; ++r) {
    const uint32_t position = first_position + r;
    if (position < sequence.n_rows_sent) continue;
    sequence.n_rows_sent = position + 1;
    if (is_hidden)
      sequence.sink->on_hidden(position, decoder_.hidden(first_row + r));
    else
      sequence.sink->on_logits(position, decoder_.logits(first_row + r));
  }
}

// `row` is the decoder's that the token was sampled from.
void Engine::publish_token(Sequence& sequence, const TokenEvent& token, size_t row) {
  const Request& request = sequence.request;
  record_token_time(sequence);
  if (request.trace == Request::Trace::kOn) {
    publish_trace(sequence, token.id, decoder_.logits(row));
  }
  scheduler_.append(sequence, token.id);
  if (has_penalties(request.sampling)) sequence.counts.add_answer(token.id);
  ++counters_.generated_tokens;
  const EventSink::Verdict verdict = sequence.sink->on_token(token);
  if (verdict == EventSink::Verdict::kStop) return finish(sequence, FinishReason::kStop);
  if (sequence.n_generated() == request.max_tokens) finish(sequence, FinishReason::kLength);
}

void Engine::publish_trace(Sequence& sequence, TokenId token, std::span<const float> logits) {
  uint64_t n_pages = 0;
  for (uint32_t g = 0; g < sequence.table.n_groups(); ++g) {
    n_pages += sequence.table.n_pages(g) - sequence.table.n_slid(g);
  }
  sequence.sink->on_trace({.id = token,
                           .began = *sequence.started,
                           .at = step_end_,
                           .position = sequence.n_tokens() - 1,
                           .kv_rows = sequence.n_kv_rows,
                           .kv_bytes = n_pages * kv_.page_bytes(),
                           .n_beside = counters_.last_step.n_sequences - 1,
                           .logits = logits});
}

// A token comes when its logits do; what is done with it takes microseconds.
void Engine::record_token_time(Sequence& sequence) {
  EngineHistograms& histograms = counters_.histograms;
  if (sequence.n_generated() > 0) {
    histograms.itl_s.record(to_s(step_end_ - sequence.last_token));
  } else {
    sequence.first_token = step_end_;
    histograms.ttft_s.record(to_s(step_end_ - sequence.submitted));
    histograms.prefill_s.record(to_s(step_end_ - *sequence.started));
  }
  sequence.last_token = step_end_;
}

// Nobody leases its pages when its sink hears of it.
void Engine::finish(Sequence& sequence, FinishReason reason) {
  const TimePoint now = clock_.now();
  Usage usage = sequence.usage;
  usage.completion_tokens = sequence.n_generated();
  usage.cache = cache_report(sequence);
  usage.queue_time = sequence.started.value_or(now) - sequence.submitted;
  if (usage.completion_tokens > 0) {
    usage.ttft = sequence.first_token - sequence.submitted;
    usage.decode_time = sequence.last_token - sequence.first_token;
    counters_.histograms.decode_s.record(to_s(usage.decode_time));
  }
  counters_.histograms.e2e_s.record(to_s(now - sequence.submitted));
  ++counters_.finished[static_cast<size_t>(reason)];
  live_.record_end(sequence);
  const std::shared_ptr<EventSink> sink = std::move(sequence.sink);
  scheduler_.remove(sequence);
  sink->on_finish(reason, usage);
}

LiveView Engine::live_view(PageMap::Extent extent) {
  return live_.view(snapshot(), scheduler_.running(), extent, clock_.now());
}

EngineSnapshot Engine::snapshot() const {
  EngineSnapshot snapshot = counters_;
  snapshot.n_waiting = scheduler_.n_waiting();
  snapshot.n_running = scheduler_.n_running();
  snapshot.queue_wait_s = queue_.wait_s(snapshot.n_waiting);
  snapshot.preemptions = scheduler_.n_preemptions();
  snapshot.prompt_tokens = scheduler_.n_prompt_tokens();
  snapshot.cached_tokens = scheduler_.n_found_tokens();
  snapshot.evictions = kv_.n_evictions();
  snapshot.pages = kv_.counts();
  snapshot.tier = tier_counters();
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
