#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <utility>

namespace kvik {

Scheduler::Scheduler(KvCache& kv, const SchedulerOptions& options)
    : kv_(kv),
      tenants_(options.n_tenants),
      speculator_(options.speculation, kv),
      running_(options.max_running),
      snapshots_(kv, running_),
      queue_({.kv = kv,
              .costs = costs_,
              .tenants = tenants_,
              .running = running_,
              .snapshots = snapshots_,
              .reuse = reuse_},
             options),
      preemption_({.kv = kv,
                   .running = running_,
                   .queue = queue_,
                   .snapshots = snapshots_,
                   .speculator = speculator_,
                   .reuse = reuse_}),
      planner_({.kv = kv,
                .costs = costs_,
                .running = running_,
                .reuse = reuse_,
                .speculator = speculator_},
               options) {}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  sequence->tenant = &tenants_.enter(sequence->request.tenant);
  if (sequence->priority_among_own() != 0) ++sequence->tenant->n_ranked;
  queue_.add(std::move(sequence));
}

const StepPlan& Scheduler::plan() {
  ++n_steps_;
  preemption_.grow_all();
  queue_.admit(n_steps_);
  return planner_.plan(n_steps_);
}

void Scheduler::commit(const StepPlan& plan, std::span<const uint32_t> accepted) {
  for (size_t i = 0; i < accepted.size(); ++i) {
    const StepPlan::Entry& entry = plan.entries[i];
    const uint32_t n_drafted = entry.n_accepted_drafts(accepted[i]);
    entry.sequence->usage.drafted_tokens += entry.n_draft_tokens();
    entry.sequence->usage.accepted_tokens += n_drafted;
    entry.sequence->tenant->charge_generated(n_drafted);
  }
  n_prompt_tokens_ += commit_rows(kv_, plan, accepted);
  for (const StepPlan::Entry& entry : plan.entries) snapshots_.keep_marked(*entry.sequence);
  for (const StepPlan::Entry& entry : plan.entries) speculator_.shorten(*entry.sequence, 0);
}

void Scheduler::observe(Duration time) {
  speculator_.observe(planner_.last(), to_ms(time), costs_);
}

void Scheduler::append(Sequence& sequence, TokenId token) {
  sequence.tokens.push_back(token);
  if (sequence.uses_cache()) return;
  sequence.n_cached = 0;  // all tokens are computed again, also those that had left a window
  sequence.table.clear();
}

Sequence* Scheduler::find(RequestId id) {
  for (const std::span<const std::unique_ptr<Sequence>> sequences :
       {running_.all(), std::span(queue_.all())}) {
    const auto found = std::ranges::find(sequences, id, [](const auto& s) { return s->id; });
    if (found != sequences.end()) return found->get();
  }
  return nullptr;
}

Sequence* Scheduler::any() {
  if (!running_.empty()) return running_.all().front().get();
  return queue_.size() == 0 ? nullptr : queue_.all().front().get();
}

void Scheduler::remove(Sequence& sequence) {
  preemption_.release(sequence);
  std::unique_ptr<Sequence> removed = running_.take(sequence);
  if (!removed) removed = queue_.take(sequence);
  Tenant& tenant = *removed->tenant;
  if (removed->priority_among_own() != 0) --tenant.n_ranked;
  tenants_.leave(tenant);
}

}  // namespace kvik
