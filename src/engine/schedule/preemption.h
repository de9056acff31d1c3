#pragma once

#include <cstdint>

#include "engine/schedule/admission_queue.h"
#include "engine/schedule/reuse_counter.h"
#include "engine/schedule/running_set.h"
#include "engine/schedule/snapshot_planner.h"
#include "engine/sequence.h"
#include "engine/speculate/speculator.h"
#include "kv/kv_cache.h"

namespace kvik {

// Gives running sequences the pages that they need for their tokens. If no page is free, the last
// sequence by priority and arrival releases all its pages and returns to the queue. The first
// sequence always advances, so every sequence ends. Engine thread only.
class Preemption {
 public:
  // All borrowed.
  struct Context {
    KvCache& kv;
    RunningSet& running;
    AdmissionQueue& queue;
    SnapshotPlanner& snapshots;
    Speculator& speculator;
    CachedTokenCounter& reuse;
  };
  explicit Preemption(const Context& context);

  // Grows all running sequences, from the first to the last.
  void grow_all();
  // Ends the leases of a sequence that has ended or was cancelled. Its computed pages stay in the
  // prefix cache.
  void release(Sequence& sequence);

  uint64_t n_preemptions() const { return n_preemptions_; }

 private:
  bool grow_or_preempt(Sequence& sequence);
  void preempt_last();
  void close(Sequence& sequence);

  KvCache& kv_;
  RunningSet& running_;
  AdmissionQueue& queue_;
  SnapshotPlanner& snapshots_;
  Speculator& speculator_;
  CachedTokenCounter& reuse_;
  uint64_t n_preemptions_ = 0;
};

}  // namespace kvik
