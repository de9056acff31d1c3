#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/metadata.h"
#include "format/synthetic.h"
#include "tensor/tensor_view.h"

namespace kvik {

// A tensor to be made up: values are normally distributed.
struct SyntheticTensor {
  TensorInfo info;
  float mean = 0;
  float deviation = 0;
};

// llama.cpp's number of a file with matrices of this type (general.file_type); std::nullopt for
// types that random weights are not made in.
std::optional<uint64_t> synthetic_file_type(ElementType type);

// The metadata of the preset with matrices of `type`, keys and values as tools/make_model.py writes
// them: geometry, and a toy vocabulary (256 bytes and 4 specials) padded to the real size.
Metadata synthetic_metadata(const ModelPreset& preset, ElementType type);

// The tensors in file order. Matrices have the deviation gain / sqrt(columns), so that the residual
// stream keeps its size; norms lie around 1 and biases around 0, always as f32.
std::vector<SyntheticTensor> synthetic_tensors(const ModelPreset& preset, ElementType type);

}  // namespace kvik
