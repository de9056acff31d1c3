#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"

namespace kvik {

using Sequences = std::vector<std::unique_ptr<Sequence>>;

// The running sequences, ordered by priority, then by arrival: the last one is preempted first.
// Writes Sequence::run and counts the running sequences of each tenant. Engine thread only.
class RunningSet {
 public:
  explicit RunningSet(uint32_t n_max) { sequences_.reserve(n_max); }

  // `step` is the number of the step that admits the sequence.
  void add(std::unique_ptr<Sequence> sequence, uint64_t step);
  std::unique_ptr<Sequence> take_last();
  // Removes the sequence. Returns null if it is not running.
  std::unique_ptr<Sequence> take(const Sequence& sequence);

  std::span<const std::unique_ptr<Sequence>> all() const { return sequences_; }
  size_t size() const { return sequences_.size(); }
  bool empty() const { return sequences_.empty(); }

 private:
  void assign_preemption_order(const Tenant& tenant);
  std::unique_ptr<Sequence> take_at(Sequences::iterator place);

  Sequences sequences_;
  std::vector<Sequence*> in_order_;  // scratch, kept so that a step allocates nothing
};

}  // namespace kvik
