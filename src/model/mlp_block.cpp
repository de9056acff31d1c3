#include "model/mlp_block.h"

#include <algorithm>
#include <variant>

namespace kvik {

Rows MlpBlock::take_buffer(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers) {
  uint32_t ffn_dim = 0;
  for (const LayerConfig& layer : config.layers) {
    const auto* mlp = std::get_if<MlpConfig>(&layer.feed_forward);
    if (mlp) ffn_dim = std::max(ffn_dim, mlp->ffn_dim);
  }
  const uint32_t n_parts = config.eagle ? 2 : GatedProduct::n_parts(config.activation);
  return buffers.take(n_rows_max, n_parts * ffn_dim);
}

}  // namespace kvik
