#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {

// Appends the tensors of one of the config's layers, in the usual order of files.
void list_layer(const ModelConfig& config, uint32_t layer, std::vector<TensorSpec>& specs);

}  // namespace kvik
