#pragma once

#include <string>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"

namespace kvik {

// Returns kKUp or kVUp (`part`), made from the one matrix per MLA layer that folders and GGUF files
// of 2024 have. That matrix computes K and V of all heads from the latent vector and is [n_heads ·
// (qk_nope_head_dim + value_dim), rank]. Later files have two stacks of heads: K's part,
// transposed, and V's part. Errors: kCorrupt for another shape, naming the tensor as in its file.
Result<ArrangedTensor> latent_up(const ModelSource& source, size_t joined, TensorId part,
                                 const AttentionConfig& attention);

// Splits such matrices of a GGUF file; any other source is unchanged.
Result<void> split_gguf_latents(ModelSource& source);

}  // namespace kvik
