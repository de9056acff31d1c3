#pragma once

#include <cstdint>

#include "engine/sequence.h"

namespace kvik {

// Counts the prompt tokens whose K and V came from the cache instead of being computed. Writes
// Sequence::reuse. Engine thread only.
class CachedTokenCounter {
 public:
  // Notes that the first n_cached tokens of the sequence have K and V now. Those that never had any
  // are counted as prefix cache hits; tokens that a preempted sequence had before are not counted
  // again.
  void count(Sequence& sequence, uint32_t n_cached);
  // Notes that the sequence is about to be preempted. If it had no step yet, it has not used its
  // cached tokens, and they are no longer counted.
  void note_preemption(Sequence& sequence);

  uint64_t n_found_tokens() const { return n_found_tokens_; }

 private:
  uint64_t n_found_tokens_ = 0;
};

}  // namespace kvik
