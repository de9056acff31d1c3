#include "engine/schedule/reuse_counter.h"

#include <algorithm>

namespace kvik {

void CachedTokenCounter::count(Sequence& sequence, uint32_t n_cached) {
  const uint32_t n_had = std::max(sequence.n_cached, sequence.reuse.n_cached_before);
  if (sequence.n_generated() == 0 && n_cached > n_had) {
    const uint32_t n_found = n_cached - n_had;
    sequence.usage.cached_tokens += n_found;
    sequence.tenant->charge_cached(n_found);
    n_found_tokens_ += n_found;
  }
  sequence.n_cached = n_cached;
  sequence.reuse.n_pages_found = n_cached / kPageTokens;
}

void CachedTokenCounter::note_preemption(Sequence& sequence) {
  if (sequence.started) {
    sequence.reuse.n_cached_before = std::max(sequence.reuse.n_cached_before, sequence.n_cached);
  } else {
    n_found_tokens_ -= sequence.usage.cached_tokens;
    sequence.usage.cached_tokens = 0;
    sequence.n_loaded = 0;
  }
}

}  // namespace kvik
