#include <utility>

#include "server/handlers.h"
#include "server/http/auth.h"
#include "server/operate/metrics_page.h"
#include "server/operate/router_models.h"

namespace kvik {
namespace {

// The aliases are vLLM's names, which dashboards use.
void add_requests(const EngineSnapshot& now, MetricsPage& page) {
  page.gauge({"kvik_requests_running", "vllm:num_requests_running"}, "Requests being computed.",
             now.n_running);
  page.gauge({"kvik_requests_waiting", "vllm:num_requests_waiting"}, "Requests in the queue.",
             now.n_waiting);
  page.gauge({"kvik_requests_held"},
             "Requests in the queue that would evict conversations expected to go on.", now.n_held);
  page.gauge({"kvik_queue_wait_estimate_seconds"},
             "Estimated time that a new request would wait in the queue.", now.queue_wait_s);
  page.counter({"kvik_requests_finished_total"}, "Requests that ended, by reason.",
               {.label = "reason",
                .parts = {{"stop", now.n_finished(FinishReason::kStop)},
                          {"length", now.n_finished(FinishReason::kLength)},
                          {"cancelled", now.n_finished(FinishReason::kCancelled)},
                          {"failed", now.n_finished(FinishReason::kFailed)},
                          {"grammar_exhausted", now.n_finished(FinishReason::kExhausted)}}});
  page.counter({"kvik_preemptions_total", "vllm:num_preemptions_total"},
               "Preemptions: a sequence released its pages and was queued again.", now.preemptions);
}

void add_times(const EngineHistograms& histograms, MetricsPage& page) {
  page.histogram({"kvik_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
                 "Submission to the first token.", histograms.ttft_s);
  page.histogram({"kvik_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
                 "One token to the next of the same answer.", histograms.itl_s);
  page.histogram({"kvik_request_latency_seconds", "vllm:e2e_request_latency_seconds"},
                 "Submission to the end of the answer.", histograms.e2e_s);
  page.histogram({"kvik_request_queue_time_seconds", "vllm:request_queue_time_seconds"},
                 "Submission to the first step.", histograms.queue_s);
  page.histogram({"kvik_request_prefill_time_seconds", "vllm:request_prefill_time_seconds"},
                 "First step to the first token.", histograms.prefill_s);
  page.histogram({"kvik_request_decode_time_seconds", "vllm:request_decode_time_seconds"},
                 "First token to the last.", histograms.decode_s);
  page.histogram({"kvik_step_time_seconds"}, "One step of the engine.", histograms.step_s);
}

void add_steps(const EngineSnapshot& now, MetricsPage& page) {
  page.counter({"kvik_steps_total"}, "Steps of the engine.", now.steps);
  page.gauge({"kvik_running_step_seconds"},
             "Time since the running step began; 0 if no step is running.", now.running_step_s);
  page.gauge({"kvik_running_step_prompt_tokens"}, "Prompt tokens of the running step.",
             now.running_step.n_prefill_rows);
  page.gauge({"kvik_running_step_decode_tokens"}, "Decoded sequences' tokens in the running step.",
             now.running_step.n_decode_rows);
  page.histogram({"kvik_batch_sequences"}, "Sequences in one step.",
                 now.histograms.batch_sequences);
  page.histogram({"kvik_batch_tokens"}, "Tokens computed in one step.", now.histograms.batch_rows);
  page.histogram({"kvik_pages_in_use"}, "Pages leased or sealed after each step.",
                 now.histograms.pages_in_use);
}

void add_tokens(const EngineSnapshot& now, MetricsPage& page) {
  const uint64_t computed = now.prompt_tokens;
  const uint64_t found = now.cached_tokens;
  page.counter({"kvik_prompt_tokens_total"}, "Prompt tokens, by where K and V came from.",
               {.label = "source", .parts = {{"computed", computed}, {"cache", found}}});
  page.counter({"vllm:prompt_tokens_total", "vllm:prefix_cache_queries_total"}, "Prompt tokens.",
               computed + found);
  page.counter({"vllm:prefix_cache_hits_total"}, "Cached prompt tokens.", found);
  page.counter({"kvik_generated_tokens_total", "vllm:generation_tokens_total"}, "Tokens generated.",
               now.generated_tokens);
}

void add_speculation(const SpeculationCounters& all, MetricsPage& page) {
  page.counter({"kvik_drafts_total", "vllm:spec_decode_num_drafts_total"},
               "Drafts that were verified.", all.drafts);
  page.counter({"kvik_drafted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"},
               "Draft tokens that were verified.", all.drafted_tokens);
  page.counter({"kvik_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"},
               "Draft tokens that were accepted.", all.accepted_tokens);
  MetricsPage::Parts by_place{.label = "position", .parts = {}};
  for (size_t place = 0; place < all.accepted_at.size(); ++place)
    by_place.parts.push_back({std::to_string(place), all.accepted_at[place]});
  page.counter({"vllm:spec_decode_num_accepted_tokens_per_pos_total"},
               "Accepted draft tokens, by their position in the draft.", by_place);
}

void add_pages(const EngineSnapshot& now, MetricsPage& page) {
  const PageCounts& pages = now.pages;
  const auto by_state = [&](double each) {
    return MetricsPage::Parts{.label = "state",
                              .parts = {{"free", each * pages.free},
                                        {"leased", each * pages.leased},
                                        {"sealed", each * pages.sealed},
                                        {"cached", each * pages.cached}}};
  };
  page.gauge({"kvik_kv_pages"}, "Pages of the cache, by state.", by_state(1));
  page.gauge({"kvik_kv_bytes"}, "Bytes of the cache, by the state of their pages.",
             by_state(now.page_bytes));
  MetricsPage::Parts reserved{.label = "kind", .parts = {}};
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    reserved.parts.push_back(
        {std::string(name_of(static_cast<MemoryKind>(kind))), now.kv_bytes[kind]});
  page.gauge({"kvik_kv_reserved_bytes"}, "Reserved bytes of the budget, by kind.", reserved);
  page.gauge({"kvik_kv_budget_bytes"}, "The budget of the cache.", now.kv_budget_bytes);
  const double in_use = static_cast<double>(pages.leased) + pages.sealed;
  page.gauge({"kvik_kv_usage_ratio", "vllm:kv_cache_usage_perc"},
             "Share of the cache's pages that running requests use, from 0 to 1.",
             pages.total() == 0 ? 0 : in_use / pages.total());
  page.gauge({"kvik_snapshot_pages"},
             "Pages of the cache that hold snapshots of sequences' states or open pages.",
             now.snapshot_pages.total() - now.snapshot_pages.free);
  page.counter({"kvik_snapshots_total"}, "Snapshots of states or open pages that were stored.",
               now.snapshots);
  page.counter({"kvik_evicted_pages_total"}, "Evicted pages.", now.evictions);
}

// The cache configuration that routers read before they send requests.
void add_cache_config(const ModelCard& card, MetricsPage& page) {
  if (card.page_tokens == 0) return;  // an encoder
  const std::string page_tokens = std::to_string(card.page_tokens);
  const std::string n_pages = std::to_string(card.kv_tokens / card.page_tokens);
  page.info("vllm:cache_config_info", "Layout of the cache; a block is one page of all layers.",
            {{"block_size", page_tokens},
             {"cache_dtype", card.kv_type},
             {"enable_prefix_caching", "True"},
             {"num_cpu_blocks", "0"},
             {"num_gpu_blocks", n_pages}});
}

// Adds the metrics of a tier, with the label `tier`.
void add_tier(std::string_view name, const TierCounters& tier, MetricsPage& page) {
  const MetricsPage::Of of{"tier", name};
  const auto one = [&](MetricsPage::Sample sample) {
    return MetricsPage::Parts{.label = {}, .parts = {{"", sample}}, .of = of};
  };
  page.gauge({"kvik_tier_up"}, "1, or 0 while the tier is degraded and is not written to.",
             one(tier.is_degraded ? 0 : 1));
  page.gauge({"kvik_tier_pages"}, "Pages that the tier holds; of Redis: keys.",
             one(tier.size.n_pages));
  page.gauge({"kvik_tier_bytes"}, "Bytes that the tier holds.", one(tier.size.n_bytes));
  page.gauge({"kvik_tier_queue_pages"}, "Pages that wait to be written.", one(tier.queue_pages));
  page.counter({"kvik_tier_pages_total"}, "Pages that went to the tier and came from it.",
               {.label = "direction",
                .parts = {{"written", tier.pages_written}, {"read", tier.pages_read}},
                .of = of});
  page.counter({"kvik_tier_bytes_total"}, "Bytes of these pages.",
               {.label = "direction",
                .parts = {{"written", tier.bytes_written}, {"read", tier.bytes_read}},
                .of = of});
  page.counter({"kvik_tier_hit_tokens_total"},
               "Prompt tokens read from the tier, found neither in memory nor in an earlier tier.",
               one(tier.hit_tokens));
  page.counter({"kvik_tier_misses_total"},
               "Lookups that did not cover the whole prompt, by reason.",
               {.label = "reason",
                .parts = {{"absent", tier.misses_absent},
                          {"damaged", tier.misses_damaged},
                          {"failed", tier.misses_failed},
                          {"timed_out", tier.misses_timed_out},
                          {"declined", tier.misses_declined},
                          {"no_room", tier.misses_no_room}},
                .of = of});
  page.counter({"kvik_tier_write_errors_total"}, "Times that the tier was degraded.",
               one(tier.write_errors));
  page.counter({"kvik_tier_evicted_pages_total"}, "Pages evicted from the tier.",
               one(tier.size.n_evictions));
}

void add_tiers(const AllTierCounters& tiers, MetricsPage& page) {
  for (size_t i = 0; i < kTierKinds; ++i) {
    if (tiers[i].is_on) add_tier(to_string(TierKind(i)), tiers[i], page);
  }
}

void add_http(const HttpCounts& counts, MetricsPage& page) {
  MetricsPage::Parts by_status{.label = "code", .parts = {}};
  for (unsigned status = HttpCounts::kFirstStatus; status < HttpCounts::kEndStatus; ++status) {
    const uint64_t n = counts.responses(status);
    if (n > 0) by_status.parts.push_back({std::to_string(status), n});
  }
  page.counter({"kvik_http_responses_total"},
               "HTTP requests answered, by status; 499: the client left first.", by_status);
  page.counter({"kvik_rejected_total"}, "Rejected requests and connections, by reason.",
               {.label = "reason",
                .parts = {{"queue_full", counts.responses(429)},
                          {"connections", counts.rejected_connections.load()}}});
  page.gauge({"kvik_http_connections"}, "Connections open now.", counts.connections.load());
  page.counter({"kvik_slow_readers_total"}, "Streams ended because their reader was too slow.",
               counts.slow_readers.load());
  page.counter({"kvik_access_log_dropped_total"},
               "Requests that were not written to the access log.", counts.unlogged.load());
}

void add_memory(const HttpMemory& memory, MetricsPage& page) {
  page.gauge({"kvik_request_memory_bytes"}, "Memory of active requests and answers, by kind.",
             {.label = "kind",
              .parts = {{"all", memory.all.used_bytes()},
                        {"connections", memory.connections.used_bytes()},
                        {"bodies", memory.bodies.used_bytes()},
                        {"answers", memory.answers.used_bytes()}}});
  page.gauge({"kvik_request_memory_limit_bytes"}, "Limit of the memory of requests and answers.",
             memory.all.limit_bytes());
}

// Adds the usage per key, and its cost if there are prices.
void add_accounts(std::span<const KeyAccounts::Entry> accounts, const std::optional<Prices>& prices,
                  MetricsPage& page) {
  const auto by_key = [&](auto sample) {
    MetricsPage::Parts parts{.label = "key", .parts = {}};
    for (const auto& [name, account] : accounts) parts.parts.push_back({name, sample(*account)});
    return parts;
  };
  page.counter({"kvik_key_computed_tokens_total"}, "Prompt tokens computed, by key.",
               by_key([](const KeyAccount& a) { return a.computed_tokens(); }));
  page.counter({"kvik_key_cached_tokens_total"}, "Cached prompt tokens, by key.",
               by_key([](const KeyAccount& a) { return a.cached_tokens(); }));
  page.counter({"kvik_key_output_tokens_total"}, "Tokens generated, by key.",
               by_key([](const KeyAccount& a) { return a.output_tokens(); }));
  if (!prices) return;
  page.counter({"kvik_key_cost_total"},
               "Cost of these tokens, by key, in the currency of the prices.",
               by_key([&](const KeyAccount& a) {
                 return prices->cost_of(a.computed_tokens(), a.cached_tokens(), a.output_tokens());
               }));
}

void add_page_log(const PageLogCounts& log, MetricsPage& page) {
  page.gauge({"kvik_kv_events_readers"}, "Connections of readers of KV events, by endpoint.",
             {.label = "endpoint",
              .parts = {{"events", log.n_subscribers}, {"replay", log.n_replay_readers}}});
  page.gauge({"kvik_kv_events_waiting"}, "KV events that are not sent yet.", log.n_waiting);
  page.gauge({"kvik_kv_events_bytes"}, "Memory of KV events, by what it holds.",
             {.label = "kind",
              .parts = {{"held", log.held_bytes},
                        {"waiting", log.waiting_bytes},
                        {"batches", log.batch_bytes},
                        {"connections", log.connection_bytes}}});
  page.gauge({"kvik_kv_events_max_bytes"}, "The most that KV events may take.", log.max_bytes);
  page.counter({"kvik_kv_events_lost_batches_total"},
               "Batches of events that slow subscribers lost.", log.n_lost_batches);
  page.counter({"kvik_kv_events_resets_total"},
               "Resets of the event stream because too many events were waiting.", log.n_resets);
}

void add_plan(std::span<const PlannedMemory> plan, MetricsPage& page) {
  MetricsPage::Parts parts{.label = "part", .parts = {}};
  for (const PlannedMemory& part : plan) parts.parts.push_back({part.name, part.n_bytes});
  page.gauge({"kvik_memory_planned_bytes"},
             "The most memory that each part may take, as kvik plan states it.", parts);
}

void add_grammars(const GrammarMemory& memory, MetricsPage& page) {
  page.gauge({"kvik_grammar_bytes"}, "Bytes of grammars, by what they are.",
             {.label = "kind",
              .parts = {{"compiled", memory.compiled_bytes}, {"matching", memory.matching_bytes}}});
  page.gauge({"kvik_grammar_compiled_max_bytes"}, "The most that compiled grammars may take.",
             memory.max_compiled_bytes);
}

void add_all(const HandlerContext& context, MetricsPage& page) {
  const EngineSnapshot now = context.service.snapshot();
  add_requests(now, page);
  add_times(now.histograms, page);
  add_steps(now, page);
  add_tokens(now, page);
  add_speculation(now.speculation, page);
  add_pages(now, page);
  add_cache_config(context.service.card(), page);
  add_tiers(now.tiers, page);
  add_http(context.counts, page);
  add_memory(context.memory, page);
  add_grammars(context.service.grammar_memory(), page);
  if (now.page_log) add_page_log(*now.page_log, page);
  if (!context.options.memory_plan.empty()) add_plan(context.options.memory_plan, page);
  add_accounts(context.accounts.all(), context.options.prices, page);
}

}  // namespace

std::string all_metrics(const HandlerContext& context) {
  MetricsPage page(context.service.card().id.text());
  add_all(context, page);
  return page.text();
}

// Totals reveal other tenants' activity: a key without operator rights sees its own lines only.
Reply handle_metrics(const HandlerContext& context, const HttpRequest& request) {
  if (context.options.router) return router_metrics(context, request);
  std::string text;
  if (is_operator(request, context.options)) {
    text = all_metrics(context);
  } else if (const ApiKey* key = find_key(request, context.options)) {
    const KeyAccounts::Entry own(key->name, context.accounts.of(key));
    MetricsPage page(context.service.card().id.text());
    add_accounts({&own, 1}, context.options.prices, page);
    text = page.text();
  }
  return HttpResponse{.status = 200,
                      .body = std::move(text),
                      .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace kvik
