#pragma once

#include "engine/speculate/chain_index.h"
#include "engine/speculate/drafter.h"

namespace kvik {

// Proposes the tokens that followed the same tokens in pages that the request may read. Agents
// repeat themselves, and an earlier request may have continued in the same way.
class ChainDrafter final : public Drafter {
 public:
  // Borrows the cache.
  explicit ChainDrafter(const KvCache& kv) : kv_(kv), index_(kv) {}

  void propose(Sequence& sequence, uint32_t n_most, Draft& draft) override;

  // Adds the computed tokens of a sequence to the index. Call before the sequence releases its
  // pages.
  void remember(const Sequence& sequence);

 private:
  ChainReader reader_of(const Sequence& sequence) const;

  const KvCache& kv_;
  ChainIndex index_;
};

}  // namespace kvik
