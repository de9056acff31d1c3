#include "catalogue/families/recurrent/falcon_h1.h"

#include <variant>

#include "catalogue/key_reader.h"

namespace kvik::families {

Result<void> finish_falcon_h1(const KeyReader& keys, ModelConfig& config) {
  TRY_ASSIGN(config.embedding_scale, keys.positive("embedding_scale", 1.0));
  TRY_ASSIGN(const float value_scale, keys.positive("attention.value_scale", 1.0));
  ActivationParameters activation;
  TRY_ASSIGN(activation.gate_scale, keys.positive("feed_forward.gate_scale", 1.0));
  TRY_ASSIGN(activation.scale, keys.positive("feed_forward.scale", 1.0));
  for (LayerConfig& layer : config.layers) {
    std::get<AttentionConfig>(layer.mixer).value_scale = value_scale;
    std::get<MlpConfig>(layer.feed_forward).activation = activation;
  }
  return {};
}

}  // namespace kvik::families
