#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/metadata.h"
#include "format/synthetic/synthetic.h"
#include "tensor/tensor_view.h"

namespace kvik {

// A tensor to be generated: values are normally distributed.
struct SyntheticTensor {
  TensorInfo info;
  float mean = 0;
  float deviation = 0;
  uint32_t n_numbers = 0;  // of integers: they are less than this
};

// Element types of the matrices of a synthetic model: one type, or one of llama.cpp's mixes, in
// which the more sensitive matrices (the head, and in some layers value and down projections) have
// type `more`.
struct SyntheticType {
  const char* name;
  ElementType most, more;
  uint64_t file_type;  // llama.cpp's general.file_type
};
// Returns the types of element_types() that have a file type, and the mixes, sorted by file type.
std::span<const SyntheticType> synthetic_types();

// Returns the metadata of the preset with matrices of that type, as in tools/make/make_model.py:
// geometry, and a toy vocabulary (256 bytes and 4 special tokens) padded to the real size.
Metadata synthetic_metadata(const ModelPreset& preset, const SyntheticType& type);

// Returns the tensors in file order. Matrices have standard deviation gain / sqrt(columns), so that
// the residual stream keeps its magnitude; norms are around 1 and biases around 0, always f32.
std::vector<SyntheticTensor> synthetic_tensors(const ModelPreset& preset, const SyntheticType& type,
                                               const Metadata& metadata);

}  // namespace kvik
