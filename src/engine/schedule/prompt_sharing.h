#pragma once

#include <span>

#include "engine/schedule/reuse_counter.h"
#include "engine/schedule/running_set.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/kv_cache.h"

namespace kvik {

// Lets running prompts that share pages compute each page only once. A prompt waits for a page that
// another prompt computes in the same step. It waits while the other prompt advances, for at most
// kPageTokens steps; after that, or if the other one ends early, the next prompt computes the page.
// If pages are private until two tenants have computed them, a tenant waits for its own prompts,
// and for those of others only if two tenants will know the page. Sequences with a recurrent state
// do not share here: SnapshotPlanner makes them wait. Engine thread only.
class PromptSharing {
 public:
  // All borrowed.
  PromptSharing(KvCache& kv, const RunningSet& running, CachedTokenCounter& reuse)
      : kv_(kv), running_(running), reuse_(reuse) {}

  // Gives the sequence the pages that others computed since the last step. Returns true if it has
  // more cached tokens now.
  bool adopt(Sequence& sequence);
  // Returns true if the plan computes the sequence's next page, either in this sequence or in
  // another one whose page it may use.
  bool is_computed_in(const StepPlan& plan, const Sequence& sequence) const;
  // Returns the prompt that should compute the next page of `sequence`. It is the most advanced one
  // of the same tenant with that page. Without one, it is the most advanced one of other tenants
  // that is not in the plan, if the sequence will be able to read the page. Otherwise it is
  // `sequence` itself.
  Sequence& best_prompt_for_next_page(Sequence& sequence, std::span<Sequence* const> prompts,
                                      const StepPlan& plan) const;

 private:
  bool copy_shared_partial_page(Sequence& sequence, std::span<const TokenId> tokens);
  bool will_compute_for(const Sequence& other, const Sequence& sequence) const;
  bool will_be_readable(const Sequence& sequence, SharingMark computed_by) const;
  SharingMark mark_of(const Sequence& sequence) const {
    return kv_.pages().mark_of(sequence.table.owner.tenant);
  }

  KvCache& kv_;
  const RunningSet& running_;
  CachedTokenCounter& reuse_;
};

}  // namespace kvik
