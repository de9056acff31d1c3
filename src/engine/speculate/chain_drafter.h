#pragma once

#include "engine/speculate/chain_index.h"
#include "engine/speculate/drafter.h"

namespace kvik {

// What stood behind the same tokens in the pages that a request may find: agents repeat themselves,
// and what came next the last time is known there.
class ChainDrafter final : public Drafter {
 public:
  // The cache is borrowed.
  explicit ChainDrafter(const KvCache& kv) : kv_(kv), index_(kv) {}

  void propose(Sequence& sequence, uint32_t n_most, Draft& draft) override;

  // Before a sequence gives its pages back: what it computed can be found from then on.
  void remember(const Sequence& sequence);

 private:
  ChainReader reader_of(const Sequence& sequence) const;

  const KvCache& kv_;
  ChainIndex index_;
};

}  // namespace kvik
