#include "catalogue/families/cohere.h"

#include <variant>

#include "catalogue/key_reader.h"

namespace kvik::families {

Result<void> finish_cohere2_moe(const KeyReader& keys, ModelConfig& config) {
  TRY_ASSIGN(const float rms_eps, keys.real("attention.layer_norm_rms_epsilon", 0));
  if (rms_eps > 0) {
    config.norm = NormKind::kRms;
    config.norm_eps = config.post_norm_eps = rms_eps;
  }
  for (LayerConfig& layer : config.layers) {
    auto* experts = std::get_if<ExpertsConfig>(&layer.feed_forward);
    if (!experts) {
      std::get<AttentionConfig>(layer.mixer).has_rope = true;
      continue;
    }
    // The softmax is over the chosen experts.
    if (experts->scoring == ExpertScoring::kSoftmax) experts->normalizes = true;
    if (experts->shared_ffn_dim == 0) continue;
    experts->weight_scale *= 0.5f;
    experts->shared_scale = 0.5f;
  }
  return {};
}

}  // namespace kvik::families
