#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/kv_layout.h"
#include "model/model.h"
#include "tier/tier_link.h"

namespace kvik {

// The shares of an engine's KV budget.
struct KvBudget {
  KvLayout layout;  // with slots for n_running sequences
  TierLink::Slots tier_slots;
  uint64_t draft_bytes = 0;  // bytes for pages and open pages of a draft model
  uint32_t n_running = 0;    // largest number of running sequences
  uint64_t kv_tokens = 0;    // length of the longest sequence that fits alone

  uint64_t states_bytes() const { return layout.n_states * layout.state_slot_bytes(); }
  uint64_t open_bytes() const { return layout.n_open_slots * layout.open_slot_bytes(); }
};

// Divides the KV budget. `draft` is the config of the draft model, or null. Errors:
// kInvalidArgument if the budget is too small.
Result<KvBudget> divide_kv_budget(const ModelConfig& config, const ModelConfig* draft,
                                  const Backend& backend, const EngineOptions& options);

// Returns the layout of the model's layers in pages, without slots.
KvLayout kv_layout(const ModelConfig& config, KvType type, const Backend& backend);

// Returns the number of sequences that can have slots for states or open pages at the same time, at
// most n_running. Slots take at most a quarter of the budget, but there is one slot if the budget
// holds it. Returns n_running if sequences need no slots.
uint32_t n_slots(const KvLayout& layout, uint64_t budget_bytes, uint32_t n_running);
// Returns the layout with n slots of each kind that it uses.
KvLayout with_slots(KvLayout layout, uint32_t n);
// Returns the smallest budget in which n_sequences have slots and n_page_bytes remain for pages. At
// most max_running sequences, and at least n_sequences, get slots.
uint64_t budget_with_slots(const KvLayout& layout, uint64_t n_page_bytes, uint64_t n_sequences,
                           uint64_t max_running);

}  // namespace kvik
