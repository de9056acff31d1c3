#pragma once

#include <cstdint>

#include "engine/sequence.h"

namespace kvik {

// Counts the prompt tokens whose K and V were found in the cache instead of computed. Writes
// Sequence::reuse. Engine thread only.
class ReuseCounter {
 public:
  // The first n_cached tokens of the sequence have K and V from now on: those that never had any
  // were found. What a preempted sequence had before is not counted again.
  void count(Sequence& sequence, uint32_t n_cached);
  // The sequence is about to be preempted. One that had no step yet has made no use of what was
  // found.
  void note_preemption(Sequence& sequence);

  uint64_t n_found_tokens() const { return n_found_tokens_; }

 private:
  uint64_t n_found_tokens_ = 0;
};

}  // namespace kvik
