#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cost_model.h"
#include "engine/schedule/reuse_counter.h"
#include "engine/schedule/running_set.h"
#include "engine/schedule/scheduler_options.h"
#include "engine/schedule/snapshot_planner.h"
#include "engine/schedule/working_set.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"
#include "tier/tier_link.h"

namespace kvik {

// Holds the waiting sequences and decides which of them runs next. Writes Sequence::queue. Engine
// thread only.
//
// Sequences are admitted by priority, then preempted ones first, then by the service that their
// tenant has received, then by due time: arrival plus three times the time that the prompt would
// take alone. The factor is 3 because a prompt with few cached tokens, if admitted early, evicts
// cached pages of waiting prompts, which costs them more than it saves. Priorities among a tenant's
// own requests only exchange positions among these.
//
// Sequences that WorkingSet holds are skipped. A sequence that does not fit blocks all later ones.
// A sequence also waits, and blocks later ones, while running prompts that are no longer than its
// own have more than a second of work left. Admission requires pages for the whole prompt and a
// watermark of one page. Pages for the answer are not reserved: until they are needed, other
// sequences use them, and preemption then frees them, which costs little because the pages stay in
// the cache.
class AdmissionQueue {
 public:
  static constexpr uint64_t kWatermark = 1;  // pages

  // All borrowed.
  struct Context {
    KvCache& kv;
    const CostModel& costs;
    const TenantLedger& tenants;
    RunningSet& running;
    SnapshotPlanner& snapshots;
    CachedTokenCounter& reuse;
  };
  AdmissionQueue(const Context& context, const SchedulerOptions& options);

  // Sets the tier from which pages that are not in memory are fetched; null for none. It must
  // outlive the queue.
  void set_tier(TierLink* tier) { tier_ = tier; }

  void add(std::unique_ptr<Sequence> sequence);
  // Returns a preempted sequence to the queue.
  void put_back(std::unique_ptr<Sequence> sequence);
  // Moves the sequences that can run now into the running set. `step` is the number of the step.
  void admit(uint64_t step);
  // Removes the sequence from the queue. Returns null if it is not waiting.
  std::unique_ptr<Sequence> take(const Sequence& sequence);

  const Sequences& all() const { return waiting_; }
  size_t size() const { return waiting_.size(); }
  uint32_t n_held() const;  // sequences that the WorkingSet holds; 0: the batch is full

 private:
  static constexpr uint32_t kFetchAhead = 4;  // sequences whose pages are fetched at the same time

  Sequences::iterator next_admissible();
  Sequences::iterator next_after(Sequences::iterator passed);
  void assign_admission_order();
  void take_place(Sequence& sequence);
  bool is_fetched(Sequence& sequence);
  bool may_fetch_again(const Sequence& sequence) const;
  void look_up(Sequence& sequence);
  bool is_blocked(const Sequence& sequence) const;
  bool has_backlog_before(const Sequence& sequence) const;
  double pending_ms(const Sequence& sequence) const;
  bool may_run(const Sequence& sequence) const;
  uint64_t pages_held(uint64_t n_tokens) const;
  bool open(Sequence& sequence);
  void begin_load(Sequence& sequence);

  KvCache& kv_;
  const CostModel& costs_;
  const TenantLedger& tenants_;
  RunningSet& running_;
  SnapshotPlanner& snapshots_;
  CachedTokenCounter& reuse_;
  WorkingSet working_set_;
  const SchedulerOptions options_;
  TierLink* tier_ = nullptr;
  Sequences waiting_;  // in order of arrival
  // The request that failed admission last, and the number of available pages at that time.
  struct Blocked {
    RequestId id{};
    uint32_t n_available = 0;
  };
  Blocked blocked_;
  uint64_t n_added_ = 0;
  std::vector<Sequence*> in_order_;  // scratch, kept so that a step allocates nothing
};

}  // namespace kvik
