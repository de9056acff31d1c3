#include "catalogue/model_config.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace kvik {

const AttentionConfig& ModelConfig::attention() const {
  const auto first =
      std::ranges::find_if(layers, [](const LayerConfig& layer) { return layer.if_attention(); });
  CHECK(first != layers.end());
  return first->attention();
}

uint32_t ModelConfig::n_attention_layers() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      std::span(layers).first(n_layers),
      [](const LayerConfig& layer) { return layer.if_attention() != nullptr; }));
}

uint32_t ModelConfig::n_state_layers() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      layers, [](const LayerConfig& layer) { return layer.has_state() || layer.has_entries(); }));
}

const ExpertsConfig* ModelConfig::experts() const {
  for (const LayerConfig& layer : layers) {
    if (const ExpertsConfig* experts = layer.experts()) return experts;
  }
  return nullptr;
}

ExpertsConfig ModelConfig::widest_experts() const {
  CHECK(experts());
  ExpertsConfig widest = *experts();
  for (const LayerConfig& layer : layers) {
    const ExpertsConfig* own = layer.experts();
    if (!own) continue;
    for (const auto size :
         {&ExpertsConfig::n_experts, &ExpertsConfig::n_used, &ExpertsConfig::ffn_dim,
          &ExpertsConfig::shared_ffn_dim, &ExpertsConfig::latent_dim, &ExpertsConfig::n_groups,
          &ExpertsConfig::parallel_ffn_dim}) {
      widest.*size = std::max(widest.*size, own->*size);
    }
  }
  return widest;
}

ModelConfig without_mtp_head(ModelConfig config) {
  config.layers.resize(config.n_layers);
  config.has_mtp_head = config.has_mtp_embedding = config.has_mtp_output = false;
  config.eagle.reset();
  config.assistant.reset();
  return config;
}

}  // namespace kvik
