#pragma once

#include <string>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"

namespace kvik {

// Folders, and files of 2024, hold for each layer of latent attention one matrix that makes K and V
// of all heads out of the latent vector, [n_heads · (still_dim + value_dim), rank]; files since
// then hold K's part transposed, and V's, each a stack of heads. Which of the two: kKUp or kVUp.
// Error: kCorrupt for another shape, naming the tensor as its file does.
Result<ArrangedTensor> latent_up(const ModelSource& source, size_t joined, TensorId part,
                                 const AttentionConfig& attention);

// A GGUF file with such matrices as one without; any other source comes back as it is.
Result<void> part_gguf_latents(ModelSource& source);

}  // namespace kvik
