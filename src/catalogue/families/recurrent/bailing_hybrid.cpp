#include "catalogue/families/recurrent/bailing_hybrid.h"

namespace kvik::families {

Result<LayerConfig> bailing_hybrid_mtp_layer(const KeyReader& keys, const ModelConfig& config) {
  TRY_ASSIGN(LayerConfig layer, usual_mtp_layer(keys, config));
  TRY(set_limits(keys, config, config.n_layers, layer));
  return layer;
}

}  // namespace kvik::families
