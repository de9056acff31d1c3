#include "engine/kv_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quantity.h"
#include "model/layer_groups.h"
#include "model/open_pages.h"
#include "model/recurrent/state_layout.h"

namespace kvik {
namespace {

constexpr uint64_t kSlotsPart = 4;  // slots take 1 / kSlotsPart of the budget at most

// Returns the draft model's share of the budget, in which it can hold as many tokens as the model.
uint64_t draft_share(const KvLayout& layout, const KvLayout& draft, uint64_t budget_bytes) {
  const uint64_t page_bytes = layout.page_bytes * layout.n_groups();
  const uint64_t draft_page_bytes = draft.page_bytes * draft.n_groups();
  return budget_bytes / (page_bytes + draft_page_bytes) * draft_page_bytes;
}

Result<void> check(const KvBudget& budget, uint64_t budget_bytes, uint64_t n_pages) {
  const KvLayout& layout = budget.layout;
  if (layout.slot_bytes() > 0 && budget.n_running == 0) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "a KV budget of {} is too small for one {} of {}", format_bytes(budget_bytes),
            layout.has_state() ? "state" : "sequence's open pages",
            format_bytes(layout.has_state() ? layout.state_bytes : layout.open_slot_bytes())));
  }
  if (budget.kv_tokens == 0 || n_pages > UINT32_MAX / kPageTokens) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a KV budget of {} holds {} pages of {}, expected {} to {}",
                            format_bytes(budget_bytes), n_pages, format_bytes(layout.page_bytes),
                            layout.n_groups(), UINT32_MAX / kPageTokens));
  }
  return {};
}

}  // namespace

Result<KvBudget> divide_kv_budget(const ModelConfig& config, const ModelConfig* draft,
                                  const Backend& backend, const EngineOptions& options) {
  const KvLayout layout = kv_layout(config, options.kv_type, backend);
  KvBudget budget{
      .layout = layout,
      .tier_slots = TierLink::slots_for(options.tiers, layout.page_bytes, options.kv_budget_bytes)};
  uint64_t rest =
      options.kv_budget_bytes - std::min(budget.tier_slots.bytes, options.kv_budget_bytes);
  if (draft) {
    budget.draft_bytes = draft_share(layout, kv_layout(*draft, options.kv_type, backend), rest);
    rest -= budget.draft_bytes;
  }
  budget.n_running = n_slots(layout, rest, std::min(options.max_running, options.max_step_tokens));
  budget.layout = with_slots(layout, budget.n_running);
  rest -= budget.states_bytes() + budget.open_bytes();
  const uint64_t n_pages = rest / layout.page_bytes;
  budget.kv_tokens = tokens_held(layout, n_pages);
  TRY(check(budget, rest, n_pages));
  return budget;
}

KvLayout kv_layout(const ModelConfig& config, KvType type, const Backend& backend) {
  KvLayout layout(page_bytes(config, type, backend), rules_of(group_layers(config).windows));
  layout.state_bytes = state_layout(config).n_bytes();
  layout.open_page_bytes = open_page_bytes(config, type, backend);
  if (const auto hidden = mtp_hidden_place(config, type, backend)) {
    layout.newest_token = {
        .group = hidden->group, .offset = hidden->offset, .n_bytes = hidden->n_bytes};
  }
  return layout;
}

uint32_t n_slots(const KvLayout& layout, uint64_t budget_bytes, uint32_t n_running) {
  if (layout.slot_bytes() == 0) return n_running;
  const uint64_t of_share = budget_bytes / kSlotsPart / layout.slot_bytes();
  const uint64_t one = std::min<uint64_t>(1, budget_bytes / layout.slot_bytes());
  return static_cast<uint32_t>(std::min<uint64_t>(n_running, std::max(of_share, one)));
}

KvLayout with_slots(KvLayout layout, uint32_t n) {
  if (layout.has_state()) layout.n_states = n;
  if (layout.has_open_pages()) layout.n_open_slots = n;
  return layout;
}

uint64_t budget_with_slots(const KvLayout& layout, uint64_t n_page_bytes, uint64_t n_sequences,
                           uint64_t max_running) {
  const uint64_t n_bytes = layout.slot_bytes() * n_sequences;
  const uint64_t with_most = std::min(n_page_bytes + layout.slot_bytes() * max_running,
                                      n_page_bytes + n_page_bytes / (kSlotsPart - 1) + 1);
  return std::max({n_page_bytes + n_bytes, kSlotsPart * n_bytes, with_most});
}

}  // namespace kvik
