#pragma once

#include <set>
#include <string_view>

#include "base/result.h"
#include "catalogue/family.h"
#include "catalogue/model_config.h"
#include "format/hf/quantization.h"
#include "format/model_source.h"

namespace kvik::hf {

// Suffixes of the names of biases that a model has or may have.
struct BiasNames {
  std::set<std::string_view> required, optional;
};
BiasNames bias_names(const FolderType& type, const ModelConfig& model);

// Combines the tensors of each quantized matrix, "NAME.qweight" with ".qzeros", ".scales" and
// ".g_idx" (if columns are sorted by activation), into one tensor "NAME.weight" of integer groups
// (tensor/group_blocks.h), which is made when it is read. With kRowByRow the names are
// "NAME.weight_packed", ".weight_scale", ".weight_shape" and possibly ".weight_zero_point" and
// ".weight_g_idx"; bf16 scales beyond the range of f16 get a power of two as common factor
// (TensorSource::scales()), and scales of activations are dropped.
//
// All other tensors are unchanged, except for the zero biases that AutoGPTQ writes for every
// matrix: biases whose suffix the model does not have are dropped, and optional ones if all of them
// are zero. Errors: kCorrupt and kUnsupported, naming a tensor that is missing or has an unexpected
// type or shape.
Result<void> group_tensors(ModelSource& source, const Quantization& how, const BiasNames& biases);

}  // namespace kvik::hf
