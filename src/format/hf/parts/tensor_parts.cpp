#include "format/hf/parts/tensor_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

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

}  // namespace kvik::hf
