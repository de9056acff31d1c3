#pragma once

#include <string>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"

namespace kvik {

// Folders, and GGUF files of 2024, have one matrix per MLA layer that computes K and V of all heads
// from the latent vector, [n_heads · (qk_nope_head_dim + value_dim), rank]; later files have K's
// part transposed and V's part, each as a stack of heads. Returns one of the two: kKUp or kVUp.
// Errors: kCorrupt for another shape, naming the tensor as in its file.
Result<ArrangedTensor> latent_up(const ModelSource& source, size_t joined, TensorId part,
                                 const AttentionConfig& attention);

// Splits such matrices of a GGUF file; any other source is unchanged.
Result<void> part_gguf_latents(ModelSource& source);

}  // namespace kvik
