#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cost_model.h"
#include "engine/schedule/reuse_counter.h"
#include "engine/schedule/running_set.h"
#include "engine/schedule/scheduler_options.h"
#include "engine/schedule/snapshot_planner.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"
#include "tier/tier_link.h"

namespace kvik {

// The sequences that wait, and the decision which of them runs next. Writes Sequence::queue. Engine
// thread only.
//
// Sequences are admitted by priority, then preempted ones first, then by how much their tenant was
// served, then by due time, which here is arrival plus three times what the prompt would take
// alone: evicting the cached pages of a waiting prompt would cost the later ones more than it
// saves. A priority among the tenant's own requests exchanges places among these. The first
// sequence that does not fit holds up all later ones; so does one while prompts of a second, none
// longer than it, are pending. A sequence needs pages for its whole prompt and a watermark of one:
// pages that its answer will need are better used meanwhile and taken back by preemption, which
// costs little because pages stay findable.
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
    ReuseCounter& reuse;
  };
  AdmissionQueue(const Context& context, const SchedulerOptions& options);

  // The tier that pages are fetched from which memory lacks; outlives the queue.
  void set_tier(TierLink* tier) { tier_ = tier; }

  void add(std::unique_ptr<Sequence> sequence);
  // Takes back a sequence that was preempted.
  void put_back(std::unique_ptr<Sequence> sequence);
  // Moves the sequences that can run now into the running set. step: its number.
  void admit(uint64_t step);
  // Returns null if the sequence does not wait.
  std::unique_ptr<Sequence> take(const Sequence& sequence);

  const Sequences& all() const { return waiting_; }
  size_t size() const { return waiting_.size(); }

 private:
  static constexpr uint32_t kFetchAhead = 4;  // sequences whose pages are fetched at once

  Sequences::iterator next_admissible();
  Sequences::iterator next_after(Sequences::iterator passed);
  void assign_turns();
  void take_turn(Sequence& sequence);
  bool is_fetched(Sequence& sequence);
  void look_up(Sequence& sequence);
  bool is_blocked(const Sequence& sequence) const;
  bool must_let_pass(const Sequence& sequence) const;
  double pending_ms(const Sequence& sequence) const;
  bool may_run(const Sequence& sequence) const;
  uint64_t pages_held(uint64_t n_tokens) const;
  bool open(Sequence& sequence);

  KvCache& kv_;
  const CostModel& costs_;
  const TenantLedger& tenants_;
  RunningSet& running_;
  SnapshotPlanner& snapshots_;
  ReuseCounter& reuse_;
  const SchedulerOptions options_;
  TierLink* tier_ = nullptr;
  Sequences waiting_;  // in order of arrival
  // The sequence that did not fit at the last try, and the pages that were available then.
  struct Blocked {
    RequestId id{};
    uint32_t n_available = 0;
  };
  Blocked blocked_;
  uint64_t n_added_ = 0;
  std::vector<Sequence*> in_order_;  // kept so that a step allocates nothing
};

}  // namespace kvik
