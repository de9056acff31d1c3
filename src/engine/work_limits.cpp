#include "engine/work_limits.h"

#include <utility>

#include "model/layer_groups.h"

namespace kvik {

WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options) {
  const ExpertsConfig experts = config.experts() ? *config.experts() : ExpertsConfig();
  const LayerGroups groups = group_layers(config);
  std::vector<HeadsUse> heads(groups.n_groups());
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
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
          .n_ctx = options.n_ctx_max ? options.n_ctx_max : config.n_ctx_train};
}

KvLayout kv_layout(size_t page_bytes, const ModelConfig& config) {
  return KvLayout(page_bytes, rules_of(group_layers(config).windows));
}

}  // namespace kvik
