#pragma once

#include "engine/speculate/cached_ngram_index.h"
#include "engine/speculate/drafter.h"

namespace kvik {

// Proposes the tokens that followed the same tokens in pages that the request may read. Agents
// repeat themselves, and an earlier request may have continued in the same way.
class CachedPageDrafter final : public Drafter {
 public:
  // Borrows the cache.
  explicit CachedPageDrafter(const KvCache& kv) : kv_(kv), index_(kv) {}

  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override;

  // Adds the computed tokens of a sequence to the index. Call before the sequence releases its
  // pages.
  void remember(const Sequence& sequence);

 private:
  CachedPageReader reader_of(const Sequence& sequence) const;

  const KvCache& kv_;
  CachedNgramIndex index_;
};

}  // namespace kvik
