#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/metadata.h"
#include "format/synthetic/synthetic.h"
#include "tensor/tensor_view.h"

namespace kvik {

// A tensor to be made up: values are normally distributed.
struct SyntheticTensor {
  TensorInfo info;
  float mean = 0;
  float deviation = 0;
};

// What the matrices of a random model are stored as, by the name users write: one type for all, or
// a mix as llama.cpp makes it, where `more` is the type of those that matter more (the head, and in
// some layers the value and down projections).
struct SyntheticType {
  const char* name;
  ElementType most, more;
  uint64_t file_type;  // llama.cpp's number of such a file (general.file_type)
};
// Returns the types of element_types() that have a file type, and the mixes, by file type.
std::span<const SyntheticType> synthetic_types();

// The metadata of the preset with matrices of that type, as tools/make/make_model.py writes it:
// geometry, and a toy vocabulary (256 bytes and 4 specials) padded to the real size.
Metadata synthetic_metadata(const ModelPreset& preset, const SyntheticType& type);

// The tensors in file order, of the preset with that metadata. Matrices have the deviation gain /
// sqrt(columns), so that the residual stream keeps its size; norms lie around 1 and biases around
// 0, always as f32.
std::vector<SyntheticTensor> synthetic_tensors(const ModelPreset& preset, const SyntheticType& type,
                                               const Metadata& metadata);

}  // namespace kvik
