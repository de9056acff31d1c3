#pragma once

#include <span>

#include "engine/schedule/reuse_counter.h"
#include "engine/schedule/running_set.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/kv_cache.h"

namespace kvik {

// Lets running prompts that share pages compute each of them once. A page that a prompt planned in
// the same step computes is waited for: as long as that prompt advances, for kPageTokens steps at
// most; then, or if it ends early, the next in line computes the page. Where pages are private
// until two tenants know them, a tenant waits for its own prompts, and for others where two of them
// know the page by then. Sequences with a state share nothing here: SnapshotPlanner makes them
// wait. Engine thread only.
class PromptSharing {
 public:
  // All borrowed.
  PromptSharing(KvCache& kv, const RunningSet& running, ReuseCounter& reuse)
      : kv_(kv), running_(running), reuse_(reuse) {}

  // Gives the sequence the pages that others computed since the last step. Returns whether it has
  // more tokens in the cache now.
  bool adopt(Sequence& sequence);
  // Returns whether the step computes the sequence's next page, for itself or for the sequence.
  bool is_computed_in(const StepPlan& plan, const Sequence& sequence) const;
  // Returns the one of the prompts that continues the next page of `sequence`: the one that is
  // furthest in that page, of the same tenant or, of those who make the page known to all, one that
  // is not in the plan; `sequence` itself where there is none.
  Sequence& most_advanced_alike(Sequence& sequence, std::span<Sequence* const> prompts,
                                const StepPlan& plan) const;

 private:
  bool adopt_filling_page(Sequence& sequence, std::span<const TokenId> tokens);
  bool will_compute_for(const Sequence& other, const Sequence& sequence) const;
  bool will_find(const Sequence& sequence, KnownBy computed_by) const;
  KnownBy mark_of(const Sequence& sequence) const {
    return kv_.pages().mark_of(sequence.table.owner.tenant);
  }

  KvCache& kv_;
  const RunningSet& running_;
  ReuseCounter& reuse_;
};

}  // namespace kvik
