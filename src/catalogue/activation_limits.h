#pragma once

#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// Sets the limits of both factors of a layer's MLP or experts (ActivationParameters::limit) to
// those that the file lists for it; 0 or no list: none. `layer` counts MTP layers, too.
Result<void> set_limits(const KeyReader& keys, const ModelConfig& config, uint32_t layer,
                        LayerConfig& of);

// Sets the limits of all layers. A Family::finish.
Result<void> finish_limits(const KeyReader& keys, ModelConfig& config);

}  // namespace kvik
