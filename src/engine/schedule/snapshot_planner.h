#pragma once

#include "engine/schedule/running_set.h"
#include "engine/schedule/snapshot_policy.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"

namespace kvik {

// Keeps state snapshots of sequences of recurrent models at the positions chosen by SnapshotPolicy,
// and makes a prompt wait for a state that it can share. Does nothing for models without a state.
// Writes Sequence::snapshots. Engine thread only.
//
// A sequence with a state can use another sequence's pages only up to a snapshot. If two prompts
// share tokens, the one that computes these tokens keeps its state where the prompts diverge, and
// the other one waits.
class SnapshotPlanner {
 public:
  SnapshotPlanner(KvCache& kv, const RunningSet& running)
      : kv_(kv), running_(running), policy_(kv.layout()) {}

  // Chooses the snapshot positions of a sequence that was just admitted, for the first time or
  // again.
  void plan_marks(Sequence& sequence);
  // Keeps the state after a step if it is at a chosen position.
  void keep_marked(Sequence& sequence);
  // Keeps the state of a sequence that is about to release its pages: of an unfinished prompt
  // always, at the end of an answer if SnapshotPolicy chooses that. Then marks the snapshot from
  // which the sequence resumed as outdated.
  void keep_end(Sequence& sequence);
  // Returns true if a running sequence is still computing tokens that the waiting one shares with
  // it, beyond its cached prefix. Marks the end of the last shared page, so that the running
  // sequence keeps its state there.
  bool waits_for_state(const Sequence& waiting);

 private:
  void keep(Sequence& sequence, SnapshotKind kind);

  KvCache& kv_;
  const RunningSet& running_;
  SnapshotPolicy policy_;
};

}  // namespace kvik
