#pragma once

#include <optional>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Makes the factors of nvfp4 tensors their scales(): the factor of "blk.0.attn_q.weight" is
// "blk.0.attn_q.scale", one f32 or one per expert. Drops scales of activations
// ("blk.0.attn_q.input_scale"). A source without nvfp4 tensors is unchanged. Errors: kCorrupt for
// another type or shape, naming the tensor.
Result<void> take_gguf_scales(ModelSource& source);

// Returns name and shape of a tensor's scales; std::nullopt if it has none, or if the model has
// another tensor of that name (Gemma 4's router scales the outputs of experts).
std::optional<TensorInfo> gguf_scales_of(const TensorInfo& weight, const Metadata& model);

}  // namespace kvik
