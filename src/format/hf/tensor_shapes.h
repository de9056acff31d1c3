#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/model_source.h"

namespace kvik::hf {

// Gives a tensor the shape that a GGUF file has. In folders, a row may be a matrix with one row,
// convolution weights have an additional axis of size 1, and columns or grouped rows may be
// vectors.
void give_shape(const TensorSpec& spec, TensorInfo& info);

// Returns whether a tensor is a causal mask or its number, which old versions of Transformers
// stored.
bool is_mask(const TensorInfo& info);

// Returns how a layer's factors of decays are made of their logarithms, which folders have.
Arrangement arrangement_of_decay(const LayerConfig& layer);

// Leaves out the first rows of a matrix.
void leave_out_rows(uint32_t n_rows, ArrangedTensor& tensor);

// Returns the tensor of these rows of a matrix. Errors: kCorrupt if it is no matrix or has fewer.
Result<ArrangedTensor> selected_rows(const ModelSource& source, size_t matrix,
                                     std::span<const uint64_t> rows);

// Returns whether two matrices have the same type, shape and bytes. Reads both up to the first
// difference.
Result<bool> are_equal(ModelSource& source, size_t first, size_t second);

// Puts the rows of Q before those of K and V in a tensor that has them for each head in turn.
void separate_qkv(const AttentionConfig& attention, ArrangedTensor& tensor);

// Transposes a matrix; `name` is that of the folder. Errors: kUnsupported if its elements are in
// blocks.
Result<void> transpose(std::string_view name, ArrangedTensor& tensor);

// Returns whether the tensor is the gate or up projection of an MLP or of a shared expert.
bool is_gate_or_up(TensorRole role);

// Converts to f32 a tensor that GGUF files always store as f32.
void store_floats(ArrangedTensor& tensor, Arrangement arrangement);
// Converts integers to i32, as GGUF files store them.
void make_int32(ArrangedTensor& tensor);

}  // namespace kvik::hf
