#pragma once

#include "engine/schedule/running_set.h"
#include "engine/schedule/snapshot_policy.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"

namespace kvik {

// Keeps the states of sequences of recurrent models where SnapshotPolicy says, and makes a prompt
// wait for a state that it shares. Does nothing for models without a state. Writes
// Sequence::snapshots. Engine thread only.
//
// A sequence with a state can use another one's pages only up to a snapshot: the prompt that
// computes the tokens that both share keeps its state where they part, and the other one waits.
class SnapshotPlanner {
 public:
  SnapshotPlanner(KvCache& kv, const RunningSet& running)
      : kv_(kv), running_(running), policy_(kv.layout()) {}

  // A sequence is admitted, for the first time or again, with what was found of it.
  void plan_marks(Sequence& sequence);
  // A step has computed rows of the sequence.
  void keep_marked(Sequence& sequence);
  // The sequence is about to give back its pages.
  void keep_end(Sequence& sequence);
  // Returns whether a running sequence still computes what this waiting one shares with it, and
  // more than was found. That one keeps its state at the end of the last page that they share.
  bool waits_for_state(const Sequence& waiting);

 private:
  void keep(Sequence& sequence, SnapshotKind kind);

  KvCache& kv_;
  const RunningSet& running_;
  SnapshotPolicy policy_;
};

}  // namespace kvik
