#include "format/hf/parts/tensor_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "format/hf/tensor_shapes.h"

namespace kvik::hf {
namespace {

Result<void> check_shape(const TensorInfo& info, const std::vector<uint64_t>& expected,
                         std::string_view note = "") {
  if (info.shape == expected) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("tensor '{}' has the shape [{}], expected [{}]{}", info.name,
                          fmt::join(info.shape, ", "), fmt::join(expected, ", "), note));
}

}  // namespace

Result<ArrangedTensor> gate_or_up_half(const ModelSource& source, size_t index,
                                       const TensorSpec& spec) {
  using enum TensorRole;
  const bool is_stack = spec.shape.size() == 3;
  const uint64_t n_experts = is_stack ? spec.shape.front() : 1;
  const TensorInfo& info = source.tensors()[index];
  std::vector<uint64_t> expected = spec.shape;
  expected[is_stack ? 1 : 0] *= 2;
  TRY(check_shape(info, expected, ": gate rows before up rows"));
  ArrangedTensor tensor;
  tensor.info = info;
  tensor.info.name = name_of(spec.id);
  tensor.info.shape = spec.shape;
  tensor.info.n_bytes /= 2;
  const uint64_t half_bytes = info.n_bytes / n_experts / 2;
  const TensorRole role = spec.id.role;
  const uint64_t half = role == kExpertGate || role == kGate || role == kSharedGate ? 0 : 1;
  for (uint64_t expert = 0; expert < n_experts; ++expert) {
    tensor.pieces.push_back({index, (2 * expert + half) * half_bytes, half_bytes});
  }
  return tensor;
}

Result<ArrangedTensor> expert_biases(const ModelSource& source, size_t index,
                                     const TensorSpec& spec) {
  const TensorInfo& info = source.tensors()[index];
  const uint64_t n_parts = spec.id.role == TensorRole::kExpertDownBias ? 1 : 2;
  TRY(check_shape(info, {spec.shape[0], n_parts * spec.shape[1]}));
  ArrangedTensor tensor;
  tensor.info = info;
  tensor.info.name = name_of(spec.id);
  tensor.info.shape = spec.shape;
  const uint64_t part_bytes = info.n_bytes / spec.shape[0] / n_parts;
  const uint64_t part = spec.id.role == TensorRole::kExpertUpBias ? 1 : 0;
  for (uint64_t expert = 0; expert < spec.shape[0]; ++expert) {
    tensor.pieces.push_back({index, (expert * n_parts + part) * part_bytes, part_bytes});
  }
  return tensor;
}

Result<ArrangedTensor> rows_of_tensor(const ModelSource& source, size_t index,
                                      const TensorSpec& spec, RowsInTensor rows) {
  const TensorInfo& info = source.tensors()[index];
  TRY(check_shape(info, {rows.n_all, spec.shape[1]}));
  const uint64_t row_bytes = info.n_bytes / rows.n_all;
  ArrangedTensor tensor;
  tensor.info = {.name = name_of(spec.id),
                 .type = info.type,
                 .shape = spec.shape,
                 .n_bytes = spec.shape[0] * row_bytes};
  tensor.pieces = {{index, rows.first * row_bytes, tensor.info.n_bytes}};
  return tensor;
}

Result<ArrangedTensor> columns_of_both(const ModelSource& source, size_t left, size_t right,
                                       const TensorSpec& spec) {
  const TensorInfo& first = source.tensors()[left];
  const uint64_t n_rows = spec.shape[0];
  ArrangedTensor tensor;
  tensor.info = {.name = name_of(spec.id), .type = first.type, .shape = spec.shape};
  for (const size_t index : {left, right}) {
    const TensorInfo& info = source.tensors()[index];
    TRY(check_shape(info, {n_rows, spec.shape[1] / 2}));
    if (info.type != first.type) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' is of type {}, expected {} as '{}'", info.name,
                              name_of(info.type), name_of(first.type), first.name));
    }
    tensor.info.n_bytes += info.n_bytes;
  }
  const uint64_t row_bytes = first.n_bytes / n_rows;
  for (uint64_t row = 0; row < n_rows; ++row) {
    for (const size_t index : {left, right}) {
      tensor.pieces.push_back({index, row * row_bytes, row_bytes});
    }
  }
  return tensor;
}

Result<ArrangedTensor> lora_factors(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const AttentionConfig& attention) {
  const TensorInfo& info = source.tensors()[index];
  TRY(check_shape(info, {spec.shape[0] - 1, 1, spec.shape[1], spec.shape[2]}));
  ArrangedTensor tensor = unchanged_tensor(source, index);
  tensor.info.name = name_of(spec.id);
  const bool is_paired = spec.id.role == TensorRole::kQLoraB || spec.id.role == TensorRole::kKLoraB;
  const Arrangement floats = is_paired ? Arrangement::kPairedFloats : Arrangement::kFloats;
  store_floats(tensor, floats);
  tensor.arrangement = floats;  // of f32 factors, too, since zeros precede them
  tensor.head_dim = attention.head_dim;
  tensor.row_floats = spec.shape[2];
  tensor.n_zeros = spec.shape[1] * spec.shape[2];
  tensor.info.shape = spec.shape;
  tensor.info.n_bytes += tensor.n_zeros * sizeof(float);
  return tensor;
}

void pair_query_rows(const AttentionConfig& a, ArrangedTensor& tensor) {
  const TensorInfo& info = tensor.info;
  if (info.shape.size() != 2 || info.shape[0] != a.qkv_dim()) return;  // the loader refuses it
  const uint64_t row_bytes = info.n_bytes / a.qkv_dim();
  const uint64_t n_paired = uint64_t{a.q_dim() + a.kv_dim()} * row_bytes;
  const size_t input = tensor.pieces.front().tensor;
  tensor.pieces = {{input, 0, n_paired},
                   {.tensor = input,
                    .begin_byte = n_paired,
                    .n_bytes = info.n_bytes - n_paired,
                    .keeps_rows = true}};
  tensor.arrangement = Arrangement::kPairedRows;
  tensor.head_dim = a.head_dim;
}

}  // namespace kvik::hf
