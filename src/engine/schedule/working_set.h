#pragma once

#include <span>

#include "engine/cost_model.h"
#include "engine/schedule/return_predictor.h"
#include "engine/schedule/running_set.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"

namespace kvik {

// Protects the conversations whose next turn is expected soon from eviction by more conversations
// than the memory holds. Their pages are those used within the usual pause between two turns
// (ReturnPredictor). A request that would take such pages is held in the queue, unless its own
// pages are all cached. New conversations also leave room for the growth of the others, and wait
// for those that were evicted and go on.
//
// A request is not held while its tenant has no running sequence, or only ones of lower priority;
// so the machine does not idle and no tenant waits for another. The request held longest is let in
// each time that the recomputation which that may cause is at most a tenth of the time since the
// last such admission; so each request runs at some time. Engine thread only.
class WorkingSet {
 public:
  // Borrowed.
  WorkingSet(const KvCache& kv, const CostModel& costs, const RunningSet& running)
      : kv_(kv), costs_(costs), running_(running) {}

  // Records the arrival of a request. `found` is its current cached prefix.
  void note_arrival(const FoundPrefix& found);
  // Sets QueueState::hold of all waiting sequences.
  void choose_held(std::span<const std::unique_ptr<Sequence>> waiting);
  // Records that a sequence was admitted.
  void note_admitted(const Sequence& sequence);

 private:
  bool may_hold(const Sequence& sequence) const;
  uint64_t n_new_pages(const Sequence& sequence) const;
  Duration time_between(const Sequence& overdue) const;

  const KvCache& kv_;
  const CostModel& costs_;
  const RunningSet& running_;
  ReturnPredictor returns_;
  uint64_t n_unused_ = 0;   // pages that no conversation is expected to use soon
  TimePoint last_overdue_;  // last admission of the request held longest
};

}  // namespace kvik
