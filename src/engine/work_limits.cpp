#include "engine/work_limits.h"

#include <algorithm>
#include <utility>

#include "model/layer_groups.h"
#include "model/recurrent/recurrent_block.h"
#include "model/state_layout.h"

namespace kvik {
namespace {

constexpr uint64_t kStatesPart = 4;  // states take one of so many parts of the budget

}  // namespace

WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options) {
  const ExpertsConfig experts = config.experts() ? *config.experts() : ExpertsConfig();
  const LayerGroups groups = group_layers(config);
  const bool guesses = options.speculation.mode != SpeculationOptions::Mode::kOff;
  constexpr uint32_t kMostGuessedRows = RecurrentBlock::kMostGuessedRows;
  std::vector<HeadsUse> heads(groups.n_groups());
  std::vector<RecurrenceShape> recurrences;
  for (uint32_t layer = 0; layer < config.layers.size(); ++layer) {
    if (const auto shape = recurrence_of(config.layers[layer])) recurrences.push_back(*shape);
    if (!config.layers[layer].if_attention()) continue;
    const uint32_t group = groups.places[layer].group;
    heads[group] = {kv_geometry(groups, group, options.kv_type),
                    config.layers[layer].attention().n_heads};
  }
  return {.n_rows = options.max_step_tokens,
          .n_experts = experts.n_experts,
          .n_expert_rows = options.max_step_tokens * experts.n_used,
          .n_sequences = options.max_running,
          .weights = std::move(kinds),
          .heads = std::move(heads),
          .n_ctx = options.n_ctx_max ? options.n_ctx_max : config.n_ctx_train,
          .recurrences = std::move(recurrences),
          .n_guessed_runs = guesses ? std::min(options.max_running, kMostGuessedRows) : 0};
}

KvLayout kv_layout(size_t page_bytes, const ModelConfig& config) {
  KvLayout layout(page_bytes, rules_of(group_layers(config).windows));
  layout.state_bytes = state_layout(config).n_bytes();
  return layout;
}

uint32_t n_states(const KvLayout& layout, uint64_t budget_bytes, uint32_t n_running) {
  if (!layout.has_state()) return 0;
  const uint64_t of_share = budget_bytes / kStatesPart / layout.state_slot_bytes();
  const uint64_t one = std::min<uint64_t>(1, budget_bytes / layout.state_slot_bytes());
  return static_cast<uint32_t>(std::min<uint64_t>(n_running, std::max(of_share, one)));
}

uint64_t budget_with_states(const KvLayout& layout, uint64_t n_page_bytes, uint64_t n_sequences) {
  const uint64_t n_bytes = layout.state_slot_bytes() * n_sequences;
  return std::max(n_page_bytes + n_bytes, kStatesPart * n_bytes);
}

}  // namespace kvik
