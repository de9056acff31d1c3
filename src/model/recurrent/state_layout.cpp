#include "model/recurrent/state_layout.h"

#include <variant>

namespace kvik {
namespace {

// floats per cache line; each layer's state begins at a cache line
constexpr uint64_t kLineFloats = 16;

}  // namespace

StateLayout state_layout(const ModelConfig& config) {
  StateLayout layout;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    layout.offsets.push_back(layout.n_floats);
    const bool is_mtp_head = i >= config.n_layers;
    uint64_t n = is_mtp_head && config.has_state() ? config.model_dim : 0;
    if (!is_mtp_head)
      config.layers[i].visit_state([&](const auto& own) { n = own.state_floats(); });
    layout.n_floats += (n + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
  return layout;
}

}  // namespace kvik
