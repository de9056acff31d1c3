#include "catalogue/families/mimo.h"

#include <variant>

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

}  // namespace kvik::families
