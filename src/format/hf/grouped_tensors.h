#pragma once

#include <set>
#include <string_view>

#include "base/result.h"
#include "format/hf/quantization.h"
#include "format/model_source.h"

namespace kvik::hf {

// Endings of the names of a model's biases: of those that it has, and of those that it may have.
struct BiasNames {
  std::set<std::string_view> required, optional;
};

// Makes each quantised matrix of the source, "NAME.qweight" with ".qzeros", ".scales" and, where
// columns are sorted by activation, ".g_idx", as one tensor "NAME.weight" of integer groups (see
// tensor/group_blocks.h), when it is read. In kRowByRow they are "NAME.weight_packed",
// ".weight_scale", ".weight_shape" and perhaps ".weight_zero_point" and ".weight_g_idx"; scales of
// bf16 that no f16 holds are so under a power of two (TensorSource::scales()), and what scales
// activations is left out. All others stay as they are, but for the biases of zeros that AutoGPTQ
// writes for every matrix: those that end in none of the names that the model has are left out, and
// those that it may have if all of them are of zeros. Errors: kCorrupt and kUnsupported, naming the
// tensor that is missing or of another type or shape than its neighbours ask for.
Result<void> group_tensors(ModelSource& source, const Quantization& how, const BiasNames& biases);

}  // namespace kvik::hf
