#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/host_memory.h"
#include "engine/schedule/scheduler.h"
#include "support/manual_clock.h"

namespace kvik {

// A scheduler over pages without contents. The test plays the role of the model.
class Rig {
 public:
  Rig(uint32_t n_pages, const SchedulerOptions& options)
      : kv_(memory_, uint64_t{n_pages} * kPageBytes, KvLayout(kPageBytes), clock_),
        scheduler_(kv_, options) {}

  struct RequestSpec {
    uint32_t n_prompt = 1;
    uint32_t max_tokens = 1000;
    uint32_t max_chunk = UINT32_MAX;
    Request::Cache cache = Request::Cache::kUse;
    std::optional<TokenId> token = {};  // token that the prompt repeats; absent: a unique one
    std::string tenant = {};
    int32_t priority = 0;
    double submitted_ms = 0;
    Request::PriorityScope ranks = Request::PriorityScope::kAllTenants;
    Request::Speculate speculate = Request::Speculate::kOn;
    std::vector<TokenId> prompt = {};  // if not empty, replaces n_prompt tokens
  };
  Sequence* add(const RequestSpec& spec) {
    Request request;
    request.prompt.assign(spec.n_prompt, spec.token.value_or(100 + TokenId(last_id_)));
    if (!spec.prompt.empty()) request.prompt = spec.prompt;
    request.ranks = spec.ranks;
    request.speculate = spec.speculate;
    request.max_tokens = spec.max_tokens;
    request.max_chunk = spec.max_chunk;
    request.cache = spec.cache;
    request.tenant = spec.tenant;
    request.priority = spec.priority;
    auto sequence = std::make_unique<Sequence>(
        QueuedRequest{.id = RequestId{++last_id_},
                      .request = std::move(request),
                      .submitted = TimePoint{} + from_ms(spec.submitted_ms)});
    sequence->table.owner.tenant = tenant_hash(spec.tenant);
    Sequence* borrowed = sequence.get();
    alive_.push_back(borrowed);
    scheduler_.add(std::move(sequence));
    return borrowed;
  }

  void remove(Sequence* sequence) {
    std::erase(alive_, sequence);
    scheduler_.remove(*sequence);
  }

  // Plans a step and plays the model: computes the rows, appends a token after each finished prompt
  // or decode, and ends sequences that have all their tokens. Returns (id, n_new) of the entries as
  // planned.
  std::vector<std::pair<uint64_t, uint32_t>> step() {
    std::vector<std::pair<uint64_t, uint32_t>> planned;
    const StepPlan& plan = scheduler_.plan();
    if (on_plan) on_plan(plan);
    std::vector<uint32_t> accepted;
    for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
      accepted.push_back(n_new - play_draft(*sequence));
      planned.emplace_back(static_cast<uint64_t>(sequence->id), n_new);
    }
    if (cost_ms) scheduler_.observe(from_ms(cost_ms(plan.work)));
    if (on_sampled) on_sampled(plan, accepted);
    scheduler_.commit(plan, accepted);
    for (const auto& [sequence, n_new, n_wanted] : std::vector(plan.entries)) {
      if (sequence->n_pending() > 0) continue;
      scheduler_.append(*sequence, answer(sequence->tokens.size()));
      if (sequence->n_generated() == sequence->request.max_tokens) remove(sequence);
    }
    return planned;
  }

  Scheduler& scheduler() { return scheduler_; }
  const PageCounts& pages() const { return kv_.counts(); }
  uint32_t n_pages_held() const { return kv_.counts().leased + kv_.counts().sealed; }
  // In order of arrival.
  const std::vector<Sequence*>& alive() const { return alive_; }

  // Trains the cost model before a test begins.
  void train_cost_model() {
    for (uint32_t n = 1; n <= 512; n *= 2) {
      add({.n_prompt = n, .max_tokens = 3});
      while (!alive_.empty()) step();
    }
  }
  uint64_t n_found_tokens() const { return scheduler_.n_found_tokens(); }

  KvCache& kv() { return kv_; }
  // Advances the clock, which otherwise stands still.
  void pass(Duration time) { clock_.advance(time); }

  std::function<void(const StepPlan&)> on_plan;
  // May lower the numbers of accepted rows.
  std::function<void(const StepPlan&, std::vector<uint32_t>& accepted)> on_sampled;
  std::function<double(const StepWork&)> cost_ms;  // time of a step; absent: no steps are observed

  static constexpr TokenId kAnswer = 8;  // default token of answers
  // Returns the token at a position of a sequence's answer.
  std::function<TokenId(size_t at)> answer = [](size_t) { return kAnswer; };

 private:
  // Accepts draft tokens up to the first that differs from the answer. Returns the number of
  // rejected ones.
  uint32_t play_draft(Sequence& sequence) const {
    auto wrong = sequence.speculation.draft.begin();
    for (; wrong != sequence.speculation.draft.end() && *wrong == answer(sequence.tokens.size());
         ++wrong)
      sequence.tokens.push_back(*wrong);
    return static_cast<uint32_t>(sequence.speculation.draft.end() - wrong);
  }

  static constexpr size_t kPageBytes = 64;
  HostMemory memory_;
  ManualClock clock_;
  KvCache kv_;
  Scheduler scheduler_;
  std::vector<Sequence*> alive_;
  uint64_t last_id_ = 0;
};

}  // namespace kvik
