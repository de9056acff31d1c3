#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/kv_layout.h"
#include "model/model.h"
#include "tier/tier_link.h"

namespace kvik {

// The shares of an engine's KV budget, in bytes.
struct KvBudget {
  KvLayout layout;  // with a slot for each sequence that runs at once
  TierLink::Slots tier_slots;
  uint64_t draft_bytes = 0;  // for the pages and open pages of a draft model
  uint32_t n_running = 0;    // sequences that run at once, at most
  uint64_t kv_tokens = 0;    // of the longest sequence that finds room alone

  uint64_t states_bytes() const { return layout.n_states * layout.state_slot_bytes(); }
  uint64_t open_bytes() const { return layout.n_open_slots * layout.open_slot_bytes(); }
};

// Errors: kInvalidArgument where the budget cannot hold anything. `draft`, which may be null, is
// the draft model.
Result<KvBudget> share_out(const ModelConfig& config, const ModelConfig* draft,
                           const Backend& backend, const EngineOptions& options);

// Returns the layout of the model's layers in pages, without slots.
KvLayout kv_layout(const ModelConfig& config, KvType type, const Backend& backend);

// Returns the number of sequences that have slots for states or open pages at once, n_running at
// most. Slots take a quarter of the budget at most, but there is one slot if the budget holds it.
// Returns n_running if sequences have no slots.
uint32_t n_slots(const KvLayout& layout, uint64_t budget_bytes, uint32_t n_running);
// The layout with so many of those slots that it has.
KvLayout with_slots(KvLayout layout, uint32_t n);
// The least budget in which n_sequences have a slot each and pages take n_page_bytes, where no more
// than max_running sequences, n_sequences at least, have slots at once.
uint64_t budget_with_slots(const KvLayout& layout, uint64_t n_page_bytes, uint64_t n_sequences,
                           uint64_t max_running);

}  // namespace kvik
