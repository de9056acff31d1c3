#include "catalogue/families/mimo.h"

#include <variant>

#include "catalogue/families/mtp_layers.h"
#include "catalogue/key_reader.h"

namespace kvik::families {

Result<void> finish_mimo2(const KeyReader& keys, ModelConfig& config) {
  TRY_ASSIGN(const float value_scale, keys.positive("attention.value_scale", 1.0));
  for (LayerConfig& layer : config.layers) {
    AttentionConfig& a = std::get<AttentionConfig>(layer.mixer);
    a.value_scale = value_scale;
    a.has_sinks = a.window > 0;
  }
  return {};
}

Result<LayerConfig> mimo2_mtp_layer(const KeyReader&, const ModelConfig& config) {
  return LayerConfig{.mixer = attention_with(config, Span::kWindow),
                     .feed_forward = MlpConfig{.ffn_dim = config.ffn_dim}};
}

}  // namespace kvik::families
