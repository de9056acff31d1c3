#include "catalogue/families/step.h"

#include <variant>
#include <vector>

#include "catalogue/families/mtp_layers.h"
#include "catalogue/key_reader.h"

namespace kvik::families {

Result<LayerConfig> step35_mtp_layer(const KeyReader& keys, const ModelConfig& config) {
  TRY_ASSIGN(const bool is_windowed, mtp_is_windowed(keys, config, true));
  LayerConfig layer{.mixer = attention_with(config, is_windowed ? Span::kWindow : Span::kAll),
                    .feed_forward = MlpConfig{.ffn_dim = config.ffn_dim}};
  TRY(set_limits(keys, config, config.n_layers, layer));
  float& limit = std::get<MlpConfig>(layer.feed_forward).activation.limit;
  TRY_ASSIGN(limit, keys.real("mtp.swiglu_clamp", double{limit}));
  return layer;
}

}  // namespace kvik::families
