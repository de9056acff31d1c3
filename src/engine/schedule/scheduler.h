#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.h"
#include "engine/cost_model.h"
#include "engine/schedule/admission_queue.h"
#include "engine/schedule/preemption.h"
#include "engine/schedule/reuse_counter.h"
#include "engine/schedule/running_set.h"
#include "engine/schedule/scheduler_options.h"
#include "engine/schedule/snapshot_planner.h"
#include "engine/schedule/step_planner.h"
#include "engine/schedule/tenants.h"
#include "engine/sequence.h"
#include "engine/speculate/speculator.h"
#include "engine/step_plan.h"
#include "kv/kv_cache.h"
#include "tier/tier_link.h"

namespace kvik {

// Decides what each step computes: gives pages to running sequences (Preemption), admits waiting
// ones (AdmissionQueue), and divides the step's rows among them (StepPlanner). Engine thread only.
class Scheduler {
 public:
  static constexpr uint64_t kMaxWaitSteps = StepPlanner::kMaxWaitSteps;  // steps

  Scheduler(KvCache& kv, const SchedulerOptions& options);

  // Sets the tier from which pages that are not in memory are fetched; null for none. It must
  // outlive the scheduler.
  void set_tier(TierLink* tier) { queue_.set_tier(tier); }

  void add(std::unique_ptr<Sequence> sequence);

  // Plans the next step. Each of its sequences has pages for its new tokens. The plan is empty if
  // there is nothing to do.
  const StepPlan& plan();
  // Commits the step that was planned last, after it was computed and sampled. The first
  // accepted[i] rows of entry i, at least one, are valid; the others are discarded (see
  // commit_rows()).
  void commit(const StepPlan& plan, std::span<const uint32_t> accepted);
  // Appends a token to the sequence. A later step computes its K and V.
  void append(Sequence& sequence, TokenId token);
  // Records the time of the step that was planned last.
  void observe(Duration time);

  // Return null if there is none.
  Sequence* find(RequestId id);
  Sequence* any();
  // Calls function(Sequence&) for each sequence. Allocates nothing.
  template <class Function>
  void for_each(const Function& function) const {
    for (const auto& sequence : running_.all()) function(*sequence);
    for (const auto& sequence : queue_.all()) function(*sequence);
  }
  // Removes a finished sequence. Its page leases have ended when this returns.
  void remove(Sequence& sequence);

  uint32_t n_waiting() const { return static_cast<uint32_t>(queue_.size()); }
  uint32_t n_held() const { return queue_.n_held(); }
  uint32_t n_running() const { return static_cast<uint32_t>(running_.size()); }
  // Returns the running sequences in the order of plan(): by priority, then by arrival.
  std::span<const std::unique_ptr<Sequence>> running() const { return running_.all(); }
  // Returns true if several tenants have requests.
  bool has_several_tenants() const { return tenants_.has_several_tenants(); }
  uint64_t n_preemptions() const { return preemption_.n_preemptions(); }
  // Numbers of prompt tokens that were computed, and that came from the cache.
  uint64_t n_prompt_tokens() const { return n_prompt_tokens_; }
  uint64_t n_found_tokens() const { return reuse_.n_found_tokens(); }
  const CostModel& costs() const { return costs_; }

 private:
  KvCache& kv_;
  TenantLedger tenants_;
  CostModel costs_;
  Speculator speculator_;
  CachedTokenCounter reuse_;
  RunningSet running_;
  SnapshotPlanner snapshots_;
  AdmissionQueue queue_;
  Preemption preemption_;
  StepPlanner planner_;
  uint64_t n_steps_ = 0;
  uint64_t n_prompt_tokens_ = 0;
};

}  // namespace kvik
