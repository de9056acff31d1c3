#include "catalogue/families/recurrent/nemotron.h"

#include <fmt/format.h>

#include <vector>

#include "catalogue/key_reader.h"
#include "catalogue/limits.h"
#include "catalogue/read_experts.h"

namespace kvik::families {
namespace {

// Gives a layer its experts, if the model has some.
Result<void> set_experts(const KeyReader& keys, const ModelConfig& config, uint32_t i,
                         LayerConfig& layer) {
  const Family& family = *find_family(config.architecture);
  TRY_ASSIGN(const auto experts,
             read_experts(keys.of_layer(i, config.n_listed_layers()), family, config));
  if (experts) layer.feed_forward = *experts;
  return {};
}

}  // namespace

// Removes the half that each layer lacks. A layer with a feed-forward size in the file's list has
// no mixer, and all other layers have no feed-forward block. Experts may differ between layers
// (Nemotron 3 Puzzle).
Result<void> finish_nemotron_h(const KeyReader& keys, ModelConfig& config) {
  TRY_ASSIGN(const std::vector<uint32_t> ffn_dims,
             keys.counts_or_none("feed_forward_length", config.n_listed_layers(), kMaxDim));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    LayerConfig& layer = config.layers[i];
    if (ffn_dims[i] == 0) {
      TRY(check_absent_experts(keys.of_layer(i, config.n_listed_layers())));
      layer.feed_forward = NoFeedForward{};
      continue;
    }
    if (layer.if_attention()) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' is {} for layer {}, which has KV heads, expected 0",
                              keys.full("feed_forward_length"), ffn_dims[i], i));
    }
    layer.mixer = NoMixer{};
    std::get<MlpConfig>(layer.feed_forward).ffn_dim = ffn_dims[i];
    TRY(set_experts(keys, config, i, layer));
  }
  return {};
}

// Some files list its two parts as layers, attention first (format/gguf/mtp_blocks.h).
Result<LayerConfig> nemotron_h_mtp_layer(const KeyReader& keys, const ModelConfig& config) {
  TRY_ASSIGN(const std::vector<uint32_t> ffn_dims,
             keys.counts_or_none("feed_forward_length", config.n_listed_layers(), kMaxDim));
  const bool is_listed_twice = config.n_mtp_layers == 2 && ffn_dims[config.n_layers] == 0;
  LayerConfig layer{.mixer = config.attention(), .feed_forward = NoFeedForward{}};
  TRY(set_experts(keys, config, config.n_layers + (is_listed_twice ? 1 : 0), layer));
  return layer;
}

}  // namespace kvik::families
