#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "catalogue/model_config.h"

namespace kvik {

class Backend;
class Model;

// Returns whether the layer stores K by head, in pages of its own: it has neither MLA nor KV
// sharing.
inline bool keeps_heads(const LayerConfig& layer) {
  const AttentionConfig* attention = layer.if_attention();
  return attention && attention->latent_dim() == 0 && !attention->shared_kv;
}

// Mean and standard deviation of every dimension of K, by layer, over the tokens of some steps.
class KeyStatistics {
 public:
  KeyStatistics() = default;
  explicit KeyStatistics(const ModelConfig& config) : layers_(config.layers.size()) {}

  // Measures K by running the model on a few fixed tokens, so that the statistics depend on the
  // model alone.
  static KeyStatistics measure(const Model& model, Backend& backend);
  // Returns the number of dimensions of K of all layers with keeps_heads().
  static uint64_t n_dimensions(const ModelConfig& config);
  // Returns the bytes of the statistics on the host.
  static uint64_t bytes(const ModelConfig& config) {
    return 2 * n_dimensions(config) * sizeof(double);
  }

  bool is_measured() const { return !layers_.empty(); }

  // Adds one token's K of a layer: [kv_dim].
  void add(uint32_t layer, std::span<const float> k);

  struct Dimension {
    double mean = 0, deviation = 0;
  };
  // Returns the statistics of each dimension of a layer's K, [kv_dim]; empty if no token was added.
  std::vector<Dimension> dimensions(uint32_t layer) const;

 private:
  struct Sums {
    uint64_t n = 0;
    std::vector<double> sums, squares;  // [kv_dim]
  };
  std::vector<Sums> layers_;
};

}  // namespace kvik
