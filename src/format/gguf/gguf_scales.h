#pragma once

#include <optional>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Beside a tensor of nvfp4, "blk.0.attn_q.weight", files hold what all of its values are times:
// "blk.0.attn_q.scale", one f32 or one for each expert. Makes it the tensor's scales(), and leaves
// out what scales activations ("blk.0.attn_q.input_scale"); any other source comes back as it is.
// Error: kCorrupt for another type or shape; it names the tensor.
Result<void> take_gguf_scales(ModelSource& source);

// What the scales of a tensor are called, and what they are; none where it has none, or where the
// model has another tensor of that name (Gemma 4's router scales the outputs of experts).
std::optional<TensorInfo> gguf_scales_of(const TensorInfo& weight, const Metadata& model);

}  // namespace kvik
