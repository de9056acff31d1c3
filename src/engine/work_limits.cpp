#include "engine/work_limits.h"

#include <algorithm>
#include <utility>

#include "model/layer_groups.h"
#include "model/recurrent/recurrent_block.h"

namespace kvik {
WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options) {
  const ExpertsConfig experts = config.experts() ? config.widest_experts() : ExpertsConfig();
  const LayerGroups groups = group_layers(config);
  const bool speculates = options.speculation.mode != SpeculationOptions::Mode::kOff;
  constexpr uint32_t kMaxDraftRows = RecurrentBlock::kMaxDraftRows;
  std::vector<HeadsUse> heads(groups.n_groups());
  std::vector<RecurrenceShape> recurrences;
  uint32_t n_runs = options.max_running;
  const uint32_t n_ctx = options.n_ctx_max ? options.n_ctx_max : config.n_ctx_train;
  for (uint32_t layer = 0; layer < config.layers.size(); ++layer) {
    if (const auto shape = recurrence_of(config.layers[layer])) recurrences.push_back(*shape);
    if (!config.layers[layer].if_attention()) continue;
    const AttentionConfig& a = config.layers[layer].attention();
    // The rows of a sequence that lie in several chunks become several runs.
    if (a.is_chunked) n_runs = 2 * options.max_running + options.max_step_tokens / a.window;
    const uint32_t group = groups.places[layer].group;
    HeadsUse& use = heads[group];
    use.kv = kv_geometry(groups, group, options.kv_type);
    use.n_heads = std::max(use.n_heads, a.n_heads);
    if (const EntriesConfig& entries = a.joint.entries; entries.exist()) {
      const uint32_t of_entries = groups.entry_places[layer].place.group;
      HeadsUse& both = heads[of_entries];
      both.kv = kv_geometry(groups, of_entries, options.kv_type);
      both.n_heads = std::max(both.n_heads, a.n_heads);
      if (entries.selects()) {
        both.n_top = entries.n_top;
        both.key_tokens = entries.n_tokens;
      }
      const uint32_t n_all = n_ctx / entries.n_tokens;
      const uint32_t n = entries.selects() ? std::min(entries.n_top, n_all) : n_all;
      both.n_copied = std::max(both.n_copied, n + std::min(n_ctx, a.window));
    }
    if (a.indexer.n_top == 0) continue;
    use.n_top = a.indexer.n_listed();
    use.block_tokens = a.indexer.listed_tokens();
    use.key_tokens = a.indexer.key_tokens;
    use.n_lists = a.indexer.n_lists();
  }
  return {.n_rows = options.max_step_tokens,
          .n_experts = experts.n_experts,
          .n_expert_rows = options.max_step_tokens * experts.n_used,
          .n_sequences = n_runs,
          .weights = std::move(kinds),
          .heads = std::move(heads),
          .n_ctx = n_ctx,
          .recurrences = std::move(recurrences),
          .n_draft_runs = speculates ? std::min(options.max_running, kMaxDraftRows) : 0,
          .n_draft_tokens = speculates ? kMaxDraftRows : 0};
}

}  // namespace kvik
